package fleet

import (
	"slices"
	"time"
)

// timing is a part of a reply: the trainer's clock.
type timing struct {
	Received int64 `json:"received"` // when the request came, in µs since 1970; 0 if the trainer does not tell
	Held     int64 `json:"held"`     // µs from then to the reply
}

// arrival is when a request came.
type arrival struct {
	shown time.Time // by the trainer's clock
	at    time.Time // to measure how long the trainer holds the request, whatever happens to its clock
}

func (s *Server) arrive() arrival { return arrival{s.now(), time.Now()} }

// timing returns the trainer's clock for a reply that it writes now.
func (a arrival) timing() timing { return timing{a.shown.UnixMicro(), time.Since(a.at).Microseconds()} }

// clock estimates by how much another machine's clock is ahead of this one, as NTP does: the request is
// taken to have arrived in the middle of its round trip, so the error is at most half of the round trip.
type clock struct {
	readings []reading // of the last readingsKept, the oldest first
}

// reading is what one round trip tells.
type reading struct {
	at    time.Time     // here
	ahead time.Duration // of the other clock
	error time.Duration // at most
}

const (
	readingsKept = time.Minute
	// drift is by which part of a second two clocks drift apart in a second, at most.
	drift = 200e-6
)

// best returns the reading with the shortest round trip.
func (c *clock) best() (best reading) {
	for i, r := range c.readings {
		if i == 0 || r.error <= best.error {
			best = r
		}
	}
	return best
}

// jumped reports whether one of the clocks was set since the best reading: r contradicts it.
func (c *clock) jumped(r reading) bool {
	best := c.best()
	apart := time.Duration(drift * float64(r.at.Sub(best.at)))
	return len(c.readings) > 0 && (r.ahead-best.ahead).Abs() > r.error+best.error+apart
}

// add adds a reading, and forgets those that are too old.
func (c *clock) add(r reading) {
	c.readings = append(slices.DeleteFunc(c.readings, func(old reading) bool { return r.at.Sub(old.at) > readingsKept }), r)
}

// readingOf returns the reading of a round trip; false if the reply does not tell or contradicts itself.
func readingOf(sent, got time.Time, t timing) (reading, bool) {
	const resolution = time.Microsecond
	took := got.Sub(sent)
	if t.Received <= 0 || t.Held < 0 || t.Held > took.Microseconds()+1 {
		return reading{}, false
	}
	travel := took - time.Duration(t.Held)*time.Microsecond
	return reading{got, time.UnixMicro(t.Received).Sub(sent.Add(travel / 2)), travel/2 + 2*resolution}, true
}
