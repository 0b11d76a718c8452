package config

import (
	"path/filepath"
	"slices"

	"github.com/trinity-go/trinity/registry"
)

// Reward returns the plug-in that scores a taskset, and its arguments. A name such as my.module.right is that of a
// function of the user's.
func (s *Settled) Reward(t *Taskset) (name string, args map[string]any) {
	section := s.Python
	if len(section.Path) == 0 {
		section.Path = []string{filepath.Dir(s.File()), "."}
	}
	section.Path = slices.Clone(section.Path)
	for i, folder := range section.Path {
		if full, err := filepath.Abs(folder); err == nil {
			section.Path[i] = full
		}
	}
	return registry.Rewards.Resolve(t.DefaultRewardFnType, t.RewardFnArgs, section.Args())
}
