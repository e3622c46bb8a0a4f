// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"context"
	"fmt"
	"math/rand"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"sluice/api"
)

const (
	nodesMax  = 64
	probeMin  = 500 * time.Millisecond
	probeMax  = 4 * time.Second
	probeTime = time.Second // for the answer to a probe
)

// The nodes of one URL, "http://a:7333,b:7333". All of them serve the same store, so a call may go
// to any of them. A node that does not answer is left out until it answers a probe. The nodes tell
// which of them owns each shard, and a later call goes to the owner. That saves a step: any node
// forwards a call to the owner.
type nodes struct {
	urls  []string
	http  *http.Client // of probes
	mutex sync.Mutex   // for what follows
	turn  int          // the node that the next call begins with
	state []nodeState
	owned map[string]*ownerMap // by queue
}

type nodeState struct {
	away     bool // it did not answer
	failures int  // in a row
	probing  bool
	answered time.Time // its last answer
}

// What the header Sluice-Owners tells of a queue.
type ownerMap struct {
	hash    string
	ordered bool
	owner   []int // of each shard: a node of the list, or -1
}

func parseURL(text string) ([]string, error) {
	text = strings.TrimRight(text, "/")
	scheme := "http://"
	switch {
	case strings.HasPrefix(text, "https://"):
		scheme = "https://"
	case !strings.HasPrefix(text, "http://"):
		return nil, invalid("store", "%q is not the URL of a node, such as http://host:7333", text)
	}
	var urls []string
	for _, name := range strings.Split(strings.TrimPrefix(text, scheme), ",") {
		one := strings.ToLower(scheme + strings.TrimRight(strings.TrimPrefix(name, scheme), "/"))
		u, err := url.Parse(one)
		switch {
		case err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "":
			return nil, invalid("store", "%q is not a node; a list looks like %sa:7333,b:7333", name, scheme)
		case u.User != nil:
			return nil, invalid("store", "the URL of a node may not contain a user; put the token into SLUICE_TOKEN")
		}
		for _, other := range urls {
			if other == one {
				return nil, invalid("store", "the list names %s twice", one)
			}
		}
		urls = append(urls, one)
	}
	if len(urls) > nodesMax {
		return nil, invalid("store", "the list names more than %d nodes", nodesMax)
	}
	return urls, nil
}

func newNodes(urls []string) *nodes {
	return &nodes{urls: urls, turn: rand.Intn(len(urls)), state: make([]nodeState, len(urls)),
		owned: map[string]*ownerMap{}}
}

// The nodes that one call has tried in this round.
type walk struct {
	tried uint64
	left  int
}

// next returns the node of the next attempt: the preferred one, else one that answers, else any
// that was not tried in this round.
func (n *nodes) next(w *walk, preferred int) int {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if w.left == 0 {
		*w = walk{left: len(n.urls)}
	}
	n.turn = (n.turn + 1) % len(n.urls)
	node := -1
	for _, awayToo := range []bool{false, true} {
		for i := -1; i < len(n.urls) && node < 0; i++ {
			candidate := preferred
			if i >= 0 {
				candidate = (n.turn + i) % len(n.urls)
			}
			if candidate >= 0 && w.tried>>candidate&1 == 0 && (awayToo || !n.state[candidate].away) {
				node = candidate
			}
		}
	}
	w.tried |= 1 << node
	w.left--
	return node
}

// report notes how an attempt at the node ended. A node without an answer is probed in the
// background until it answers.
func (n *nodes) report(node int, answered bool) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	s := &n.state[node]
	if answered {
		s.away, s.failures, s.answered = false, 0, time.Now()
		return
	}
	s.away = true
	pause := probeMin << s.failures
	if pause > probeMax {
		pause = probeMax
	} else {
		s.failures++
	}
	if len(n.urls) > 1 && !s.probing {
		s.probing = true
		time.AfterFunc(pause, func() {
			lives := n.answers(node)
			n.mutex.Lock()
			s.probing = false
			n.mutex.Unlock()
			n.report(node, lives)
		})
	}
}

func (n *nodes) answers(node int) bool {
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", n.urls[node]+"/healthz", nil)
	if err != nil {
		return false
	}
	answer, err := n.http.Do(r)
	if err == nil {
		answer.Body.Close()
	}
	return err == nil
}

// watch cancels an attempt if its node stays silent and does not answer a probe either.
func (n *nodes) watch(ctx context.Context, node int, cancel func()) {
	for began := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(probeTime):
		}
		n.mutex.Lock()
		last := n.state[node].answered
		n.mutex.Unlock()
		if last.After(began) && time.Since(last) < 5*time.Second {
			continue
		}
		if !n.answers(node) {
			cancel()
			return
		}
		n.report(node, true)
	}
}

// Owners

const ownerDigits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// learn keeps what an answer tells of the owners. Only nodes of the URL are used: an answer cannot
// direct a client to another host.
func (n *nodes) learn(queue, line string) {
	words := strings.Split(line, " ")
	if line == "" || len(words) < 2 || (words[1] != "ordered" && words[1] != "unordered") {
		return
	}
	places := words[2:]
	m := &ownerMap{hash: "?", ordered: words[1] == "ordered", owner: make([]int, len(words[0]))}
	if len(line) <= hashMax {
		m.hash = fmt.Sprintf("%016x", hash64([]byte(line), 0))
	}
	n.mutex.Lock()
	defer n.mutex.Unlock()
	before := n.owned[queue]
	for i, c := range words[0] {
		m.owner[i] = -1
		place := strings.IndexRune(ownerDigits, c)
		if place >= len(places) || (place < 0 && c != '-') {
			return
		}
		// A node that does not know an owner says nothing against another node's word.
		if place < 0 && before != nil && len(before.owner) == len(m.owner) {
			m.owner[i] = before.owner[i]
		}
		for k, u := range n.urls {
			if place >= 0 && u == places[place] {
				m.owner[i] = k
			}
		}
	}
	n.owned[queue] = m
}

// The value of the request header Sluice-Owners. "": there is one node only.
func (n *nodes) askOwners(queue string) string {
	if len(n.urls) == 1 {
		return ""
	}
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if m := n.owned[queue]; m != nil {
		return m.hash
	}
	return "?"
}

// owner returns the node that owns most of the items of a call, or -1. For a receive without acks
// it is the owner of a random shard, so that receives spread over the owners.
func (n *nodes) owner(r *api.Request) int {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	m := n.owned[r.Queue]
	if m == nil || len(m.owner) == 0 || !r.Op.Owned {
		return -1
	}
	votes := make([]int, len(n.urls))
	for _, shard := range m.shards(r) {
		if shard >= 0 && shard < len(m.owner) && m.owner[shard] >= 0 {
			votes[m.owner[shard]]++
		}
	}
	best := -1
	for node, count := range votes {
		if count > 0 && (best < 0 || count > votes[best]) {
			best = node
		}
	}
	return best
}

// The shards of the messages or tokens of a call.
func (m *ownerMap) shards(r *api.Request) []int {
	var shards []int
	var tokens []string
	switch in := r.In.(type) {
	case *api.SendMessagesRequest:
		if len(in.Messages) == 0 {
			shards = append(shards, m.shardOf(&api.NewMessage{Group: in.Group, Dedup: in.Dedup}, r.ID, 0))
		}
		for i := range in.Messages {
			shards = append(shards, m.shardOf(&in.Messages[i], r.ID, i))
		}
	case *api.ReceiveMessagesRequest:
		if tokens = in.Ack; len(tokens) == 0 {
			return []int{rand.Intn(len(m.owner))}
		}
	case *api.AckMessagesRequest:
		tokens = append(in.Tokens, in.Token)
		for _, row := range in.Acks {
			tokens = append(tokens, row.(ackRow).Token)
		}
	case *api.FailMessagesRequest:
		tokens = append(in.Tokens, in.Token)
	case *api.ReleaseMessagesRequest:
		tokens = append(in.Tokens, in.Token)
	case *api.RenewLocksRequest:
		tokens = append(in.Tokens, in.Token)
		for _, row := range in.Renewals {
			tokens = append(tokens, row.(renewalRow).Token)
		}
	}
	for _, token := range tokens {
		if parts := strings.Split(token, "-"); len(parts) > 1 {
			if shard, err := strconv.Atoi(parts[1]); err == nil {
				shards = append(shards, shard)
			}
		}
	}
	return shards
}

// shardOf is the rule of the nodes: the group decides the shard, else the dedup key, else the
// request id and the place of the message in its request.
func (m *ownerMap) shardOf(message *api.NewMessage, request string, index int) int {
	shards := uint64(len(m.owner))
	key := message.Group
	if key == "" {
		key = message.Dedup
	}
	switch {
	case shards == 1 || (m.ordered && message.Group == ""):
		return 0
	case len(key) > hashMax:
		return -1
	case key != "":
		return int(hash64([]byte(key), 0) % shards)
	}
	id := parseRequestID(request)
	return int(hash64(id[:], uint64(index)) % shards)
}
