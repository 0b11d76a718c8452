package experience

import (
	"fmt"
	"strings"

	"github.com/trinity-go/trinity"
)

// maxShown bounds the bytes of a truth or a question that travels with every answer. The tests of a program may be a
// megabyte.
const maxShown = 8 << 10

// Truth returns the reference answer of a task as people are shown it; "" if the task has none.
func Truth(t *trinity.Task) string { return shown(t.Truth()) }

// Question returns what a task asks, as people are shown it; "" if that is no text or chat.
func Question(t *trinity.Task) string {
	messages, err := t.Messages("")
	if err != nil || len(messages) == 0 {
		return ""
	}
	return shown(messages[len(messages)-1].Content)
}

// shown cuts a long text, and says so.
func shown(text string) string {
	if len(text) <= maxShown {
		return text
	}
	return strings.ToValidUTF8(text[:maxShown], "") + fmt.Sprintf("… (%d bytes more)", len(text)-maxShown)
}
