package studio

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/trace"
)

// mostFailures is how many failures one reply has.
const mostFailures = 200

// failure is a failed rollout with its texts.
type failure struct {
	trace.Failure
	PromptText  string `json:"prompt_text"`
	SampledText string `json:"sampled_text"`
}

// failures answers with the newest failed rollouts of a run, whether or not the trace has answers.
func (s *traces) failures(r *http.Request, f *runFiles) (any, error) {
	limit, err := number(r, "limit", mostFailures)
	if err != nil {
		return nil, err
	}
	if limit < 1 || limit > mostFailures {
		return nil, mistake{fmt.Errorf("limit is %d: want 1 to %d", limit, mostFailures)}
	}
	dir, err := f.traces()
	if err != nil {
		return nil, err
	}
	damaged := []string{}
	all, err := trace.ReadFailures(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a run without a trace has no failures
		damaged = append(damaged, strings.Split(err.Error(), "\n")...)
	}
	count := len(all)
	slices.SortStableFunc(all, func(a, b trace.Failure) int { return b.Time.Compare(a.Time) })
	all = all[:min(count, int(limit))]
	texts := map[int32]string{}
	if count > 0 {
		if texts, err = s.textsIn(dir); err != nil {
			damaged = append(damaged, err.Error())
		}
	}
	return map[string]any{"failures": withTexts(all, texts), "total": count, "damaged": damaged}, nil
}

// withTexts returns failures with the texts of their tokens.
func withTexts(all []trace.Failure, texts map[int32]string) []failure {
	out := make([]failure, len(all))
	for i, f := range all {
		out[i] = failure{f, join(f.Prompt, texts), join(f.Sampled, texts)}
	}
	return out
}

func join(tokens []int32, texts map[int32]string) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteString(texts[t])
	}
	return b.String()
}
