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

func TestTextHasAtMostTwoUnits(t *testing.T) {
	for seconds, want := range map[float64]string{
		0: "0s", 0.123: "0.12s", 5: "5s", 9.96: "10s", 12.3: "12s", 59.7: "1m00s", 99.7: "1m40s",
		184: "3m04s", 62 * 60: "1h02m", 49 * 3600: "2d01h",
	} {
		if got := Text(Seconds(seconds)); got != want {
			t.Errorf("%g seconds are %q, want %q", seconds, got, want)
		}
	}
}
