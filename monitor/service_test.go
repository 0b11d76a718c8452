package monitor

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// An address may be of another program, whose answers are no success.
func TestSinksRefuseAnotherServer(t *testing.T) {
	large := strings.Repeat(" ", maxAnswer+1)
	for _, c := range []struct{ sink, key, answer, want string }{
		{"mlflow", "uri", `{}`, "the answer names no experiment"},
		{"mlflow", "uri", `{"experiment": {"experiment_id": "7"}}`, "the answer names no run"},
		{"mlflow", "uri", large, "answered more than 1 MiB"},
		{"trackio", "server_url", `{}`, "the answer is not Trackio's"},
		{"trackio", "server_url", "<html>", "the answer is not the JSON that was expected"},
		{"trackio", "server_url", large, "answered more than 1 MiB"},
		{"otel", "endpoint", large, "answered more than 1 MiB"},
		{"wandb", "base_url", large, "answered more than 1 MiB"},
	} {
		t.Setenv("WANDB_API_KEY", strings.Repeat("a", 40))
		url := (&faults{}).serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, c.answer) }))
		monitors, said := followed(t, t.TempDir(), c.sink, map[string]any{c.key: url})
		logSteps(t, monitors, 1, 1)
		end(t, monitors, Finished)
		if !strings.Contains(said(), c.want) {
			t.Errorf("%s, %.50q: said %q, want %q", c.sink, c.answer, said(), c.want)
		}
	}
}
