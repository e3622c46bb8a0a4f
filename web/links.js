// SPDX-License-Identifier: Apache-2.0
// Addresses of the dashboard's own pages.

export const workflowLink = (queue, id) => queueLink(queue, `/workflow/${encodeURIComponent(id)}`);
export const queueLink = (name, rest = "") => `#/queues/${encodeURIComponent(name)}${rest}`;
