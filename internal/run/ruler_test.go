package run_test

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// conversations cuts a question of ruler_reward.
var conversations = regexp.MustCompile(`\n# Conversation \d+\n\n\[assistant\]\n`)

// letters returns the share of a reply's characters that are letters of the alphabet.
func letters(reply string) float64 {
	n, all := 0, 0
	for _, c := range strings.TrimSpace(reply) {
		if all++; 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' {
			n++
		}
	}
	return float64(n) / float64(max(1, all))
}

// letterJudge serves a judge that scores each conversation by the share of letters in its reply. If
// it shuffles, the scores of a question belong to other conversations of it: their mean is as true
// as before.
func letterJudge(t *testing.T, shuffles bool) (url string) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Messages []struct{ Content string }
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || len(asked.Messages) == 0 {
			t.Errorf("a question of %d messages, %v", len(asked.Messages), err)
			return
		}
		question := asked.Messages[len(asked.Messages)-1].Content
		text, _, _ := strings.Cut(question, "\nScore each conversation")
		var scores []float64
		for _, reply := range conversations.Split(text, -1)[1:] {
			scores = append(scores, letters(reply))
		}
		if shuffles {
			h := fnv.New64a()
			fmt.Fprint(h, question)
			rand.New(rand.NewPCG(h.Sum64(), 0)).Shuffle(len(scores), func(i, k int) { scores[i], scores[k] = scores[k], scores[i] })
		}
		answer, _ := json.Marshal(map[string]any{"scores": scores})
		_ = json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{"message": map[string]any{"content": string(answer)}}}})
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// A policy from scratch learns what a judge compares its rollouts by, and nothing from a judge whose
// scores belong to other rollouts of the group.
func TestAPolicyLearnsFromAJudgeThatCompares(t *testing.T) {
	t.Setenv("TEST_JUDGE_KEY", "sesame")
	for name, shuffles := range map[string]bool{"a judge": false, "a judge that shuffles": true} {
		t.Run(name, func(t *testing.T) {
			p := newProject(t, tiny, strings.ReplaceAll(rl, "test_even", "ruler_reward"))
			if _, err := p.run(t, noEvaluation, "buffer.explorer_input.taskset.reward_fn_args={judge: judge}",
				"buffer.total_steps=40", externally(letterJudge(t, shuffles))); err != nil {
				t.Fatal(err)
			}
			scores := curve(t, p.job(), "explorer", "rollout/ruler/mean")
			if len(scores) != 40 {
				t.Fatalf("%d steps have scores, want 40", len(scores))
			}
			first, last := mean(scores[:5]), mean(scores[35:])
			t.Logf("share of letters %.2f to %.2f", first, last)
			if shuffles && last > first+0.15 || !shuffles && last < first+0.4 {
				t.Errorf("the share of letters went from %.2f to %.2f; want 0.4 more, and if the judge shuffles, less than 0.15 more", first, last)
			}
		})
	}
}
