package tinker

import (
	"cmp"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What save_weights_and_get_sampling_client writes has no name, and no client deletes it: a loop makes one each step.
// maxSnapshots of a model stay; older ones go once nobody has asked them for snapshotIdle.
const (
	maxSnapshots = 64
	snapshotIdle = time.Minute
)

// takeOld takes the sampling sessions of old snapshots out of all.
func takeOld(all map[string]*sampler, now time.Time) (old []*sampler) {
	of := map[string][]*sampler{}
	for _, x := range all {
		if x.model != "" {
			of[x.model] = append(of[x.model], x)
		}
	}
	for _, snapshots := range of {
		slices.SortFunc(snapshots, func(a, b *sampler) int { return cmp.Compare(numberOf(b.id), numberOf(a.id)) })
		for _, x := range snapshots[min(maxSnapshots, len(snapshots)):] {
			if x.busy == 0 && now.Sub(x.asked) > snapshotIdle {
				delete(all, x.id)
				old = append(old, x)
			}
		}
	}
	return old
}

// numberOf returns the number of a sampling session.
func numberOf(id string) int {
	n, _ := strconv.Atoi(id[strings.LastIndex(id, ":")+1:]) // the service has made the id
	return n
}

// removeSampler removes a snapshot, after the file of its sampling session.
func (s *store) removeSampler(x *sampler) error {
	err := os.Remove(s.samplerFile(x))
	if err == nil {
		err = os.RemoveAll(x.adapter.dir)
	}
	s.disk.changed()
	return err
}

// asking counts a request for samples of the session, until done is called.
func (x *sampler) asking(s *Server) (done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.samplers[x.id] != x {
		return nil, noSampler(x.id)
	}
	x.busy++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		x.busy--
		x.asked = time.Now()
	}, nil
}

func noSampler(id string) error {
	return missing("there is no sampling session %.200q: it has ended, or was a snapshot that made room for %d newer ones", id,
		maxSnapshots)
}
