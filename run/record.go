package run

import (
	"context"

	"github.com/trinity-go/trinity/explorer"
	"github.com/trinity-go/trinity/internal/experience/archive"
)

// exploreAlone writes the rollouts of the model as it is to an archive in files. No trainer reads
// it meanwhile.
func (s *stage) exploreAlone(ctx context.Context, ex *explorer.Options) error {
	dir, err := s.ownDir(s.ExperienceFile())
	if err != nil {
		return err
	}
	sink := archive.NewSink(dir)
	defer sink.Close(ctx)
	_, cursor, err := sink.Resume(ctx)
	if err != nil {
		return err
	}
	if err := ex.Agenda.Restore(cursor); err != nil {
		return err
	}
	if err := s.openEngine(ctx, false, true); err != nil {
		return err
	}
	if err := s.record(ex.Agenda.Step(), ex.TotalSteps); err != nil {
		return err
	}
	s.say("rollouts go to " + dir)
	ex.Pace = explorer.Pace{Style: "fixed", Interval: ex.TotalSteps + 1} // every step with version 0
	ex.Buffer, ex.Weights, ex.Recorder = sink, untrained{}, explorerRecorder{s.log}
	return explorer.New(*ex).Run(ctx)
}

// untrained stands for the weights of a model that nobody trains: version 0 for ever.
type untrained struct{}

func (untrained) Wait(context.Context, int64, bool) (int64, error) { return 0, nil }
func (untrained) ExplorerDone()                                    {}
