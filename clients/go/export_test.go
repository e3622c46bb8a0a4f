// SPDX-License-Identifier: Apache-2.0

package sluice

import "sluice/api"

// ShardOf returns the shard that the client expects for a message, and the node that it thinks owns
// the shard. -1: it does not know.
func (c *Client) ShardOf(queue string, message *api.NewMessage, request string, index int) (shard, owner int) {
	n := c.main.nodes
	n.mutex.Lock()
	defer n.mutex.Unlock()
	m := n.owned[queue]
	if m == nil {
		return -1, -1
	}
	shard = m.shardOf(message, request, index)
	return shard, m.owner[shard]
}
