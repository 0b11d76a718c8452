package wait

import "time"

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
