package wait

import (
	"math"
	"testing"
	"time"
)

func TestSecondsNeverTurnNegative(t *testing.T) {
	for s, want := range map[float64]time.Duration{
		0: 0, 0.5: time.Second / 2, 9.2e9: longest, 9.3e9: longest, 1e300: longest, math.Inf(1): longest,
	} {
		if got := Seconds(s); got != want || got+got < got {
			t.Errorf("%g s: %v, want %v", s, got, want)
		}
	}
}
