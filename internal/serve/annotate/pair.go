package annotate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/trinity-go/trinity"
)

// Prompt is a text or the messages of a chat.
type Prompt struct {
	Text string
	Chat []trinity.Message // nil for a text
}

// Pair holds two different answers to a prompt.
type Pair struct {
	ID      string // a hash: equal pairs have the same ID
	Prompt  Prompt
	Answers [2]string
}

func newPair(p Prompt, first, second string) Pair {
	text, err := json.Marshal([]any{p, first, second})
	if err != nil {
		panic(err) // texts and messages are JSON
	}
	sum := sha256.Sum256(text)
	return Pair{ID: hex.EncodeToString(sum[:8]), Prompt: p, Answers: [2]string{first, second}}
}

// messages returns the prompt as messages for display.
func (p Prompt) messages() []trinity.Message {
	if p.Chat != nil {
		return p.Chat
	}
	return []trinity.Message{{Role: "user", Content: p.Text}}
}
