package wait

import (
	"fmt"
	"time"
)

// longest is the longest time of Seconds. The sum of two such times is still a duration.
const longest = 100 * 365 * 24 * time.Hour

// Seconds returns a time of a configuration. One that is longer than a century is a century: more
// would be negative as a duration and end at once.
func Seconds(s float64) time.Duration {
	if s > longest.Seconds() {
		return longest
	}
	return time.Duration(s * float64(time.Second))
}

// Text formats a time in at most two units: 0.25s, 45s, 3m04s, 1h02m, 2d03h.
func Text(d time.Duration) string {
	s := int64(d.Round(time.Second) / time.Second)
	switch {
	case s >= 24*60*60:
		return fmt.Sprintf("%dd%02dh", s/(24*60*60), s/(60*60)%24)
	case s >= 60*60:
		return fmt.Sprintf("%dh%02dm", s/(60*60), s/60%60)
	case s >= 60:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	case s >= 10:
		return fmt.Sprintf("%ds", s)
	}
	return fmt.Sprintf("%.2gs", d.Seconds())
}
