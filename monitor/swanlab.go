package monitor

import (
	"cmp"
	"context"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/trinity-go/trinity"
)

func init() {
	Monitors.Register("swanlab", "Writes an offline run of SwanLab to swanlab in the run's monitor directory, which swanlab sync uploads.",
		func() trinity.Monitor { return &swanlab{Follower: newFollower()} })
}

// swanlab writes the file of an offline run. Each metric of a record is a message there.
type swanlab struct {
	Follower       `yaml:",inline"`
	Workspace      string   `yaml:"workspace" doc:"that gets the run; your own if not given"`
	ExperimentName string   `yaml:"experiment_name" doc:"the run's name if not given"`
	Description    string   `yaml:"description" doc:"of the run"`
	Tags           []string `yaml:"tags" doc:"of the run"`

	file *recordFile
}

// Writes returns the directory below the monitor directory and its contents, for trinity check.
func (*swanlab) Writes() (path, what string) { return "swanlab", "an offline run for swanlab sync" }

const swanlabHeader = ":SWL\xd6\xe1\x02" // magic number 0xE1D6 and version 2

// Field numbers of SwanLab's Record and its parts, and numbers of the first and the last record.
const (
	swanlabNum    protowire.Number = 1
	swanlabTime   protowire.Number = 2
	swanlabStart  protowire.Number = 10
	swanlabFinish protowire.Number = 11
	swanlabScalar protowire.Number = 13

	swanlabFirst = -1
	swanlabLast  = -2
)

// Begin implements [Sink].
func (s *swanlab) Begin(_ context.Context, run Run) (err error) {
	start := message(nil, 1, []byte(cmp.Or(run.Project, "trinity")))
	start = message(start, 2, []byte(s.Workspace))
	start = message(start, 4, []byte(cmp.Or(s.ExperimentName, run.Name)))
	start = message(start, 5, []byte(s.Description))
	for _, tag := range s.Tags {
		start = message(start, 6, []byte(tag))
	}
	start = message(start, 7, []byte(run.Group))
	start = message(start, 10, []byte(run.ID))
	start = varint(start, 11, 1) // resume if the service has the run
	start = message(start, 12, stamp(run.Began))
	first := message(varint(nil, swanlabNum, swanlabFirst), swanlabTime, stamp(run.Began))
	path := filepath.Join(run.Dir, "swanlab", "run-"+run.ID+".swanlab")
	s.file, err = openRecordFile(path, swanlabHeader, message(first, swanlabStart, start))
	return err
}

// Send implements [Sink].
func (s *swanlab) Send(_ context.Context, first int64, records []trinity.Record) error {
	var rows [][]byte
	for i, r := range records {
		at := stamp(r.Time)
		for _, name := range slices.Sorted(maps.Keys(r.Metrics)) {
			number := protowire.AppendTag(nil, 1, protowire.Fixed64Type)
			number = protowire.AppendFixed64(number, math.Float64bits(r.Metrics[name]))
			scalar := varint(varint(message(nil, 1, []byte(name)), 2, r.Step), 3, 1)
			scalar = message(message(scalar, 4, at), 5, number)
			row := message(varint(nil, swanlabNum, first+int64(i)+1), swanlabTime, at)
			rows = append(rows, message(row, swanlabScalar, scalar))
		}
	}
	return s.file.write(first, rows)
}

// Tell implements [Sink].
func (s *swanlab) Tell(_ context.Context, status Status) error {
	at := stamp(time.Now())
	finish := varint(nil, 1, map[Status]int64{Finished: 1, Failed: 2, Stopped: 3}[status])
	last := message(varint(nil, swanlabNum, swanlabLast), swanlabTime, at)
	return s.file.write(math.MaxInt64, [][]byte{message(last, swanlabFinish, message(finish, 3, at))})
}
