package buffer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// status reads the hash, in one piece.
func (r *redisServer) status(ctx context.Context) (s sharedStatus, err error) {
	fields, err := asked(ctx, r, r.policy, func(ctx context.Context) (map[string]string, error) {
		fields, err := r.client.HGetAll(ctx, r.keys[0]).Result()
		if err == nil && len(fields) == 0 {
			err = errGone
		}
		return fields, err
	})
	if err != nil {
		return s, err
	}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		name, ok := strings.CutPrefix(field, "explorer:")
		if name, session := strings.CutSuffix(name, ":session"); ok && session {
			e := sharedExplorer{name: name, closed: fields["explorer:"+name+":closed"] == "1"}
			if e.paused, err = strconv.ParseInt(fields["explorer:"+name+":paused"], 10, 64); err != nil {
				return s, fmt.Errorf("%s: explorer %s: %w", r, name, err)
			}
			s.explorers = append(s.explorers, e)
		}
	}
	if s.rollouts, err = between(fields["put_rollouts"], fields["taken_rollouts"]); err != nil {
		return s, err
	}
	s.put, err = between(fields["put"], "")
	return s, err
}

// between is the difference of two counts, of which one that is not there is 0.
func between(more, less string) (int64, error) {
	var n [2]int64
	for i, text := range []string{more, less} {
		if text == "" {
			continue
		}
		var err error
		if n[i], err = strconv.ParseInt(text, 10, 64); err != nil {
			return 0, err
		}
	}
	return n[0] - n[1], nil
}
