package main

import "testing"

// The reward rises from almost nothing to almost 1.
func TestRewardRises(t *testing.T) {
	means, err := train(t.Context(), t.Output(), "../quickstart", 1e-3)
	if err != nil {
		t.Fatal(err)
	}
	if first, last := means[0], means[len(means)-1]; first > 0.1 || last < 0.8 {
		t.Errorf("the mean reward went from %.3f to %.3f: want it to rise from below 0.1 to above 0.8", first, last)
	}
}
