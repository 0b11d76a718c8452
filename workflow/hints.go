package workflow

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/trinity-go/trinity"
)

const (
	hintsBegin, hintsEnd = "<hints>", "</hints>"

	hintSystem = "You solve tasks in one environment, one after the other. What you learn in a task reaches the next one only through your " +
		"hints. Now you rewrite them. You read the hints so far, and what happened in the task that you have just done.\n" +
		"Keep what has proved right. Drop what has proved wrong. Add what is new: facts of the environment that nobody told you, and ways " +
		"to act that worked or failed. Mark what you are not sure of. Leave out what helps in that one task alone, and what the task's " +
		"instructions say.\n" +
		"Reason briefly first. Then write all hints, as a short list, between " + hintsBegin + " and " + hintsEnd + ", and nothing after them."
	hintExample = "\nAn example of the end of your reply:\n" + hintsBegin + "\n- Doors open to the left.\n- The second room may be empty.\n" +
		hintsEnd
	hintQuestion = "The hints so far:\n%s\n\nThe task that you have just done:\n%s\n\nReward: %.3f\n%s"

	notesForm = "Hints that you wrote after earlier tasks in this environment. They may be wrong, or not fit this task:\n%s"
	limitForm = "Write at most %d tokens in a reply."
)

// notes returns what the policy reads beside a task.
func (p *packArgs) notes(hints string) string {
	var parts []string
	if hints != "" {
		parts = append(parts, fmt.Sprintf(notesForm, hints))
	}
	if p.Cod.Limit > 0 {
		parts = append(parts, fmt.Sprintf(limitForm, p.Cod.Limit))
	}
	return strings.Join(parts, "\n\n")
}

// noted returns messages with notes in the system prompt.
func noted(messages []trinity.Message, notes string) []trinity.Message {
	if notes == "" {
		return messages
	}
	system := trinity.Message{Role: "system", Content: notes}
	if len(messages) > 0 && messages[0].Role == "system" {
		system.Content = messages[0].Content + "\n\n" + notes
		messages = messages[1:]
	}
	return append([]trinity.Message{system}, messages...)
}

// rewrite lets the policy rewrite its hints after a task. It returns the reply, or nil if the policy
// could not read what happened because it is too long; the hints then stay as they are.
func (p *packArgs) rewrite(
	ctx context.Context, m *trinity.Model, a *attempt, hints string,
) (written *trinity.Experience, now string, err error) {
	d := m.Dialogue(nil)
	system := cmp.Or(p.Cod.HintPrompt, hintSystem)
	if p.Cod.HintExample {
		system += hintExample
	}
	if p.Cod.Limit > 0 {
		system += "\n" + fmt.Sprintf(limitForm, p.Cod.Limit)
	}
	before := hints
	if before == "" {
		before = "(none yet)"
	}
	d.Add(trinity.Message{Role: "system", Content: system}, trinity.Message{
		Role: "user", Content: fmt.Sprintf(hintQuestion, before, transcript(a.chat), a.reward.Value, a.after),
	})
	prompt, err := d.Prompt()
	if err != nil {
		return nil, "", err
	}
	if m.MaxPromptLen > 0 && len(prompt) > m.MaxPromptLen || m.MaxModelLen > 0 && len(prompt) >= m.MaxModelLen {
		note(a.steps[len(a.steps)-1], map[string]float64{"hints_skipped": 1})
		return nil, hints, nil
	}
	reply, err := d.Reply(ctx)
	if err != nil {
		return nil, "", err
	}
	written = d.Steps()[0]
	now, read := hintsIn(reply.Message.Content)
	readable := 0.0
	if read {
		readable = 1
	}
	written.Metrics = map[string]float64{"hints_read": readable, "hints_length": float64(len([]rune(now)))}
	written.Reward = trinity.Reward{Value: -p.Cod.HintPenalty * p.Cod.fault(written.ResponseLen(), read), Valid: true}
	return written, now, nil
}

// fault returns how much of the penalty hints have, from 0 to 1.
func (a *codArgs) fault(tokens int, read bool) float64 {
	switch {
	case !read:
		return 1
	case a.HintLenMax == 0:
		return 0
	case tokens < a.HintLenMin:
		return 1
	}
	return ramp(tokens, a.HintLenZero, a.HintLenMax)
}

// hintsIn returns the last hints in a reply, if there are some.
func hintsIn(reply string) (hints string, ok bool) {
	begin := strings.LastIndex(reply, hintsBegin)
	if begin < 0 {
		return "", false
	}
	hints, _, closed := strings.Cut(reply[begin+len(hintsBegin):], hintsEnd)
	if hints = strings.TrimSpace(hints); !closed || hints == "" {
		return "", false
	}
	return hints, true
}

// transcript returns a chat as text.
func transcript(chat []trinity.Message) string {
	var text strings.Builder
	for _, m := range chat {
		fmt.Fprintf(&text, "[%s]\n%s%s\n", m.Role, m.Content, m.ToolCalls)
	}
	return strings.TrimSpace(text.String())
}
