package trace

import (
	"encoding/json"
	"testing"
)

// The fast reader of spans reads what the decoder of JSON reads, whatever the span before it was.
func FuzzParseSpan(f *testing.F) {
	for _, s := range []Span{
		{}, {Role: "trainer", Kind: "wait", For: "explorer", Step: 3, Begin: -1, End: 2},
		{Role: "explorer a", Kind: "rollout", Name: "<é\"\\\u2028>", ID: "1/a b/0/0", Version: 1 << 60, Begin: 5, End: 1},
	} {
		line, err := json.Marshal(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(append(line, '\n'))
	}
	f.Add([]byte(`{"role":"x","end":1.5}` + "\n"))
	f.Add([]byte(`{"role":"a","kind":"b","begin":01,"end":-}` + "\n"))
	f.Fuzz(func(t *testing.T, line []byte) {
		var want Span
		wantErr := json.Unmarshal(line, &want)
		got := Span{Role: "trainer", Kind: "wait", Name: "n", For: "f", Step: 1, Version: 2, ID: "i", Begin: 3, End: 4}
		if err := parseSpan(line, &got); wantErr == nil && (err != nil || got != want) {
			t.Errorf("%q: %+v, %v, want %+v", line, got, err, want)
		}
	})
}
