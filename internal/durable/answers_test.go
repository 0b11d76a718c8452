package durable

import (
	"strings"
	"testing"
)

func TestAnswersSurviveAReopening(t *testing.T) {
	dir := t.TempDir()
	for round := range 3 { // stored answers survive a reopening
		a, err := OpenAnswers(dir)
		if err != nil {
			t.Fatal(err)
		}
		for i, key := range []string{"a", strings.Repeat("long", 100), ""} {
			answer, ok, err := a.Answer(key)
			if err != nil || ok != (i < round) || ok && string(answer) != "answer to "+key {
				t.Errorf("round %d, key %d: %q, %v, %v", round, i, answer, ok, err)
			}
			if i == round {
				if err := a.Put(key, []byte("answer to "+key)); err != nil {
					t.Fatal(err)
				}
				if got, _, err := a.Answer(key); string(got) != "answer to "+key {
					t.Errorf("at once: %q, %v", got, err)
				}
			}
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func FuzzSplitAnswer(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{1, 'k', 'v'})
	f.Add([]byte{200, 1, 'k'})
	f.Fuzz(func(t *testing.T, record []byte) {
		key, answer, err := splitAnswer(record)
		if err == nil && !strings.HasSuffix(string(record), key+string(answer)) {
			t.Errorf("%x is key %q and answer %q", record, key, answer)
		}
	})
}
