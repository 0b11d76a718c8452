package gateway

import (
	"cmp"
	"slices"
)

// sortCalls brings calls into the order in which their experiences are returned. What a program asks at
// the same time arrives in another order in every run, so the order follows from the tree alone: chats
// that were open at the same time are sorted by the replies before a call, and then by tokens. Of
// chats that were open one after another, the earlier comes first.
func sortCalls(nodes []*node) {
	period := periodsOf(nodes)
	slices.SortStableFunc(nodes, func(a, b *node) int {
		return cmp.Or(period[a.root()]-period[b.root()], a.depth-b.depth, slices.Compare(a.sequence, b.sequence))
	})
}

// root returns the first call of a chat.
func (n *node) root() *node {
	for n.parent != nil {
		n = n.parent
	}
	return n
}

// periodsOf numbers the chats, by their first calls. Chats of one number overlap, or other chats join
// them. A chat is open from the beginning of its first call to the end of its last one.
func periodsOf(nodes []*node) map[*node]int {
	ended := map[*node]int{}
	var chats []*node
	for _, n := range nodes {
		root := n.root()
		if ended[root] == 0 {
			chats = append(chats, root)
		}
		ended[root] = max(ended[root], n.ended)
	}
	slices.SortFunc(chats, func(a, b *node) int { return a.begun - b.begun })
	period, now, until := map[*node]int{}, 0, 0
	for _, chat := range chats {
		if chat.begun > until {
			now++
		}
		period[chat], until = now, max(until, ended[chat])
	}
	return period
}

// lastOf returns the call with which the program has ended: the one that it made when it had all other
// replies. If there is none, it returns the last of the sorted calls.
func lastOf(nodes []*node) *node {
	var last *node
	ended := 0 // when the calls before it had ended
	for _, n := range slices.SortedFunc(slices.Values(nodes), func(a, b *node) int { return a.begun - b.begun }) {
		if last != nil {
			ended = max(ended, last.ended)
		}
		last = n
	}
	if last == nil || last.begun > ended {
		return last
	}
	return nodes[len(nodes)-1]
}
