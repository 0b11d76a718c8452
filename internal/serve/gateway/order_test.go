package gateway

import (
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// Chats that are open at the same time have one order, however their calls interleave. What a program
// asks before and after them stays before and after them, and its last call is the one to score.
func TestChatsHaveOneOrder(t *testing.T) {
	chats := map[byte][][]string{
		'p': {{"user:plan"}},
		'a': {{"user:'m'"}, {"user:'m'", "assistant:m", "user:'n'"}, {"user:'m'", "assistant:m", "user:'n'", "assistant:n", "user:'o'"}},
		'b': {{"user:'x'"}, {"user:'x'", "assistant:x", "user:'y'"}},
		'c': {{"user:'c'"}},
		'e': {{"user:again 'all'"}},
	}
	for _, steps := range []bool{false, true} {
		var first string
		for _, order := range []string{"pabcabae", "pbacbaae", "pabcaabe"} {
			e := open(t, trinity.EndpointOptions{Steps: steps})
			calls := map[byte]int{}
			for _, chat := range []byte(order) {
				e.reply(chats[chat][calls[chat]]...)
				calls[chat]++
			}
			r, got := e.recorded()
			if first == "" {
				first = got
			}
			if got != first {
				t.Errorf("%s: got\n%s\nbefore\n%s", order, got, first)
			}
			if last := spelled(r.Last); !strings.HasPrefix(got, "user:plan|") || !strings.HasSuffix(got, last) ||
				!strings.Contains(last, "again") || len(r.Messages) != 2 {
				t.Errorf("%s: the last chat is %s of\n%s", order, last, got)
			}
		}
	}
}

// The chat with the last call is scored, even if its experience is not the last one.
func TestTheLastCallIsScored(t *testing.T) {
	e := open(t, trinity.EndpointOptions{})
	e.reply("user:'plan'")
	e.reply("user:'x'")
	e.reply("user:'x'", "assistant:x", "user:'y'")
	e.reply("user:'x'", "assistant:x", "user:'y'", "assistant:y", "user:'z'")
	e.reply("user:'plan'", "assistant:plan", "user:'done'")
	r, got := e.recorded()
	if last := spelled(r.Last); !strings.Contains(last, "[done|]") || !strings.HasPrefix(got, last) || len(r.Messages) != 4 {
		t.Errorf("the last chat is %s of\n%s", last, got)
	}
}
