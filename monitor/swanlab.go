package monitor

import (
	"cmp"
	"context"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/wire/protobuf"
)

func init() {
	Monitors.Register("swanlab", "Sends a run to SwanLab, if SWANLAB_API_KEY is set and SWANLAB_MODE is online or not set. "+
		"It always writes an offline run to swanlab in the run's monitor directory, which swanlab sync uploads.",
		func() trinity.Monitor {
			return &swanlab{Follower: newFollower(), APIHost: cmp.Or(os.Getenv("SWANLAB_API_HOST"), "https://api.swanlab.cn")}
		})
}

// swanlab writes the file of an offline run, in which each metric of a record is a message, and sends the
// same points to the server.
type swanlab struct {
	Follower       `yaml:",inline"`
	APIHost        string   `yaml:"api_host" doc:"address of the server; SWANLAB_API_HOST if that is set"`
	APIKey         string   `yaml:"api_key" secret:"true" doc:"better in SWANLAB_API_KEY, which reaches no file"`
	Workspace      string   `yaml:"workspace" doc:"that gets the run; SWANLAB_WORKSPACE, else your own"`
	ExperimentName string   `yaml:"experiment_name" doc:"the run's name if not given"`
	Description    string   `yaml:"description" doc:"of the run"`
	Tags           []string `yaml:"tags" doc:"of the run"`

	run    Run
	file   *recordFile
	server swanlabServer
	online bool  // the server gets the points
	barred error // why it cannot get them
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

	// swanlabBits number the points of a row: SwanLab's program drops all but one of a number.
	swanlabBits  = 20
	swanlabFirst = -1
	swanlabLast  = -2
)

// Begin implements [Sink].
func (s *swanlab) Begin(ctx context.Context, run Run) (err error) {
	run.Project = cmp.Or(run.Project, "trinity")
	s.run, s.online, s.barred, s.server = run, !s.isOffline(), nil, swanlabServer{}
	start := message(nil, 1, []byte(run.Project))
	start = message(start, 2, []byte(s.workspace()))
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
	dir := filepath.Join(run.Dir, "swanlab")
	s.file, err = openRecordFile(filepath.Join(dir, "run-"+run.ID+".swanlab"), swanlabHeader, swanlabBits,
		message(first, swanlabStart, start))
	if err != nil {
		return err
	}
	if len(s.file.ends) == 1 { // it is new, or an earlier version of the program has written its rows
		s.tail.forget()
	}
	if !s.online {
		return nil
	}
	s.barred, err = s.file.offlineReason(dir, "swanlab sync")
	return err
}

// Takes implements [Sink].
func (*swanlab) Takes() Parts { return Parts{Beat: swanlabBeat} }

// Send implements [Sink]. If the server does not take the records, they and all that follow are in the
// file.
func (s *swanlab) Send(ctx context.Context, b Batch) error {
	if len(b.Records) == 0 {
		return s.sendBeat(ctx)
	}
	if err := s.write(b.First, b.Records); err != nil || !s.online {
		return err
	}
	if err := s.send(ctx, b.Records); err != nil {
		s.server.unsure = true
		return cmp.Or(s.rest(s.write), err)
	}
	return nil
}

// write writes the points of records to the file.
func (s *swanlab) write(first int64, records []trinity.Record) error {
	var rows [][]byte
	for i, r := range records {
		at := stamp(r.Time)
		for k, name := range slices.Sorted(maps.Keys(r.Metrics)) {
			number := protobuf.AppendDouble(nil, 1, r.Metrics[name])
			scalar := varint(varint(message(nil, 1, []byte(name)), 2, r.Step), 3, 1)
			scalar = message(message(scalar, 4, at), 5, number)
			row := message(varint(nil, swanlabNum, (first+int64(i)+1)<<swanlabBits+int64(k)), swanlabTime, at)
			rows = append(rows, message(row, swanlabScalar, scalar))
		}
	}
	return s.file.write(first, rows)
}

// Tell implements [Sink].
func (s *swanlab) Tell(ctx context.Context, status Status) error {
	at := stamp(time.Now())
	finish := varint(nil, 1, map[Status]int64{Finished: 1, Failed: 2, Stopped: 3}[status])
	last := message(varint(nil, swanlabNum, swanlabLast), swanlabTime, at)
	if err := s.file.write(math.MaxInt64, [][]byte{message(last, swanlabFinish, message(finish, 3, at))}); err != nil || !s.online {
		return err
	}
	return s.tell(ctx, status)
}

func (s *swanlab) key() string       { return cmp.Or(s.APIKey, os.Getenv("SWANLAB_API_KEY")) }
func (s *swanlab) workspace() string { return cmp.Or(s.Workspace, os.Getenv("SWANLAB_WORKSPACE")) }

// isOffline reports whether a server gets nothing.
func (s *swanlab) isOffline() bool {
	return s.key() == "" || !slices.Contains([]string{"", "online", "cloud"}, os.Getenv("SWANLAB_MODE"))
}

// Target implements [Sink].
func (s *swanlab) Target() string {
	if s.isOffline() {
		return ""
	}
	return withoutSecrets(s.APIHost)
}

// Validate refuses an address that is none.
func (s *swanlab) Validate() error { return isAddress("api_host", s.APIHost) }
