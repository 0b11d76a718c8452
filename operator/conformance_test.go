package operator

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
)

func TestConformance(t *testing.T) {
	required := map[string]args{
		"reward_shaping_mapper": {"reward_shaping_configs": []any{args{"stats_key": "length", "op_type": "SUB", "weight": 0.1}}},
		"length_filter":         {"min_response_tokens": 1},
		"overlong_shaping":      {"max_response_length": 2, "cache_length": 2},
		"top_k_filter":          {"k": 2},
		"expr_filter":           {"condition": "reward >= group.mean or (info.length ?? 0) > 2"},
		"expr_mapper":           {"reward": "reward - 0.5 * response_tokens", "info": args{"better": "reward > group.mean"}},
		"starlark":              {"script": "def process(group): return [e for e in group if e['index'] % 2 == 0]"},
		"exec":                  {"command": program("even")},
		"http": {"url": serve(t, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			programs["even"](bytes.NewReader(body), w, os.Stderr)
		})},
	}
	for _, name := range registry.Operators.Names() {
		t.Run(name, func(t *testing.T) {
			host := trinitytest.Programs(t)
			trinitytest.Operator(t, func() trinity.Operator {
				if name == "data_juicer" {
					op, _ := juicing(t, odd)
					return op
				}
				if name == "python" {
					op, err := inPython(t, host, "own_operators.Odd", nil, nil)
					if err != nil {
						t.Fatal(err)
					}
					return op
				}
				return build(t, name, required[name])
			})
		})
	}
}
