package tinker

import (
	"encoding/json"
	"testing"
)

// Whatever ids come, they are refused or lie in the vocabulary, and the answer has their layout.
func FuzzPromptTargets(f *testing.F) {
	f.Add([]byte(`{"data":[1,-1],"dtype":"int64","shape":[2,1]}`), 2)
	f.Add([]byte(`{"data":[1],"dtype":"int64","shape":[2,3],"sparse_crow_indices":[0,0,1],"sparse_col_indices":[2]}`), 2)
	f.Add([]byte(`{"data":[1],"dtype":"int64","shape":[1,3],"sparse_crow_indices":[0,9],"sparse_col_indices":[-2]}`), 1)
	f.Fuzz(func(t *testing.T, body []byte, places int) {
		var in PromptTargets
		if json.Unmarshal(body, &in) != nil || places > 1000 {
			return
		}
		ids, first, err := in.IDs(places, 50)
		if err != nil {
			return
		}
		logprobs := make([]float32, len(ids))
		for i, id := range ids {
			if id < -1 || id >= 50 {
				t.Fatalf("id %d", id)
			}
			logprobs[i] = float32(id)
		}
		values, err := in.Answer(logprobs).Floats()
		if err != nil || len(values) != len(ids) || first < 0 || first >= places {
			t.Fatalf("%d values for %d ids, first %d: %v", len(values), len(ids), first, err)
		}
	})
}
