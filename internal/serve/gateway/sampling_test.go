package gateway

import (
	"net/http"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// A request changes the distribution of its tokens only where its sampling does not count, or where nothing
// trains on them.
func TestARequestMayNotChangeWhatIsTrained(t *testing.T) {
	for _, c := range []struct {
		sampling  trinity.Sampling
		untrained bool
		status    int
	}{
		{trinity.SamplingOfRequest, false, http.StatusBadRequest},
		{trinity.SamplingOfRequest, true, http.StatusOK},
		{trinity.SamplingOfTaskset, false, http.StatusOK},
	} {
		for _, field := range []string{`"top_p":0.5`, `"top_k":2`, `"min_p":0.5`, `"repetition_penalty":2`,
			`"presence_penalty":1`, `"frequency_penalty":-1`, `"logit_bias":{"97":5}`} {
			e := open(t, trinity.EndpointOptions{Sampling: c.sampling})
			e.model.Params.Untrained = c.untrained
			name, _, _ := strings.Cut(field[1:], `"`)
			status, text := e.ask(chat, strings.Replace(says("user:hi 'ab'"), "{", "{"+field+",", 1))
			if status != c.status || status != http.StatusOK && !strings.Contains(text, `"param":"`+name+`"`) {
				t.Errorf("%s, sampling %s, untrained %t: %d %s", field, c.sampling, c.untrained, status, text)
			}
		}
	}
}
