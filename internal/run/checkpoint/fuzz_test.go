package checkpoint

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/experience"
)

// FuzzState reads any run.json and pending.tgx. What it accepts can be saved and read again.
func FuzzState(f *testing.F) {
	pending, err := experience.AppendDelivery(nil, trinity.Delivery{Groups: []trinity.Group{{
		{Tokens: []int32{1, 2}, Mask: []bool{false, true}, PromptLen: 1},
	}}})
	if err != nil {
		f.Fatal(err)
	}
	state, err := json.Marshal(State{Step: 3, Published: 2, Count: 1, Cursor: json.RawMessage(`{"a":1}`), Algorithm: json.RawMessage(`{}`)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(state, pending)
	f.Add([]byte(`{"step":-1,"made":null,"pending":1e9}`), pending[:5])
	f.Fuzz(func(t *testing.T, state, pending []byte) {
		dir := t.TempDir()
		for name, data := range map[string][]byte{stateFile: state, pendingFile: pending} {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s, err := readState(dir)
		groups, pendingErr := readPending(filepath.Join(dir, pendingFile))
		if err != nil || pendingErr != nil {
			return
		}
		s.Pending, s.Step = groups, 1
		d := Dir{Path: t.TempDir(), Say: func(string) {}}
		if err := d.Save(s, func(string) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if again, ok, err := d.Latest(); err != nil || !ok || again.Published != s.Published || len(again.Pending) != len(groups) {
			t.Errorf("%+v, %v, %v", again, ok, err)
		}
	})
}
