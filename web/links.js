// SPDX-License-Identifier: Apache-2.0
// Addresses of the dashboard's own pages.

export const queueLink = (name, rest = "") => `#/queues/${encodeURIComponent(name)}${rest}`;
