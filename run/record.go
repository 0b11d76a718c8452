package run

import (
	"context"

	"github.com/trinity-go/trinity/buffer"
	"github.com/trinity-go/trinity/explorer"
)

// exploreAlone writes the rollouts of the model as it is into a file, which nobody trains on meanwhile.
func (s *stage) exploreAlone(ctx context.Context, ex *explorer.Explorer) error {
	path := s.cfg.ExperienceFile()
	own, err := s.asWriter("experiences")
	if err != nil {
		return err
	}
	file := buffer.NewFile(path, own)
	defer file.Close()
	cursor, err := file.Resume(ctx)
	if err != nil {
		return err
	}
	if err := ex.Restore(cursor); err != nil {
		return err
	}
	if err := s.openEngine(ctx, false, true); err != nil {
		return err
	}
	if err := s.record(ex.Step(), ex.TotalSteps); err != nil {
		return err
	}
	s.say("rollouts go to " + path)
	ex.Pace = explorer.Pace{Style: "fixed", Interval: ex.TotalSteps + 1} // every step with version 0
	ex.Buffer, ex.Sync = file, untrained{}
	ex.Runner, ex.Log, ex.Warn = s.runner(), s.log.role("explorer"), s.log.warn
	return ex.Run(ctx)
}

// untrained is the weights of a model that nobody trains.
type untrained struct{}

func (untrained) Wait(context.Context, int64, bool) (int64, error) { return 0, nil }
func (untrained) ExplorerDone()                                    {}
