package sampler

import (
	"math"
	"testing"
)

// The Random123 distribution publishes these answers.
func TestPhiloxKnownAnswers(t *testing.T) {
	const ones = 0xffffffff
	for _, c := range []struct {
		counter [4]uint32
		key     [2]uint32
		want    [4]uint32
	}{
		{[4]uint32{}, [2]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{[4]uint32{ones, ones, ones, ones}, [2]uint32{ones, ones}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{[4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, [2]uint32{0xa4093822, 0x299f31d0},
			[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		if got := philox(c.counter, c.key); got != c.want {
			t.Errorf("philox(%x, %x) = %x, want %x", c.counter, c.key, got, c.want)
		}
	}
}

func TestUniformMeanAndKeys(t *testing.T) {
	const n = 20000
	sum := 0.0
	seen := map[float64]bool{}
	for i := range n {
		u := uniform(7, i%100, i/100, ofCompletion)
		if u < 0 || u >= 1 || seen[u] {
			t.Fatalf("draw %d: %v out of [0, 1) or seen before", i, u)
		}
		seen[u] = true
		sum += u
	}
	if mean := sum / n; math.Abs(mean-0.5) > 4*math.Sqrt(1.0/12/n) {
		t.Errorf("mean of %d draws is %v", n, mean)
	}
	one := uniform(1, 0, 0, ofCompletion)
	if one == uniform(2, 0, 0, ofCompletion) || one == uniform(1<<32|1, 0, 0, ofCompletion) || one == uniform(1, 0, 0, ofPrompt) {
		t.Error("the seed's halves do not both count")
	}
}
