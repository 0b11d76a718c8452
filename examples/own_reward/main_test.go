package main

import (
	"testing"

	"github.com/trinity-go/trinity"
)

func TestShare(t *testing.T) {
	for reply, want := range map[string]float64{"": 0, "12": 1, "1+2é": 0.5, "no": 0} {
		got, err := (&Share{Chars: "0123456789"}).Score(t.Context(), trinity.RewardInput{Response: reply})
		if err != nil || got.Value != want {
			t.Errorf("%q: got %v, %v, want %v", reply, got.Value, err, want)
		}
	}
}
