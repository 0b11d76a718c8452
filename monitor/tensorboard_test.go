package monitor

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/trinity-go/trinity"
)

// point is one scalar; a text and hyperparameters have the value 0.
type point struct {
	Step  int64
	Tag   string
	Value float32
}

// readEvents reads event files with code of its own.
func readEvents(t *testing.T, path string) (version string, points []point) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for len(data) > 0 {
		n := binary.LittleEndian.Uint64(data)
		body := data[12 : 12+n]
		if binary.LittleEndian.Uint32(data[8:]) != maskedCRC(data[:8]) || binary.LittleEndian.Uint32(data[12+n:]) != maskedCRC(body) {
			t.Fatal("a checksum is wrong")
		}
		data = data[16+n:]
		var step int64
		fields(t, body, func(num protowire.Number, v uint64, b []byte) {
			switch num {
			case eventStep:
				step = int64(v)
			case eventFileVersion:
				version = string(b)
			case eventSummary:
				fields(t, b, func(_ protowire.Number, _ uint64, b []byte) {
					p := point{Step: step}
					fields(t, b, func(num protowire.Number, v uint64, b []byte) {
						switch num {
						case valueTag:
							p.Tag = string(b)
						case valueSimple:
							p.Value = math.Float32frombits(uint32(v))
						}
					})
					points = append(points, p)
				})
			}
		})
	}
	return version, points
}

func fields(t *testing.T, b []byte, visit func(num protowire.Number, v uint64, b []byte)) {
	t.Helper()
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		b = b[n:]
		var v uint64
		var s []byte
		switch typ {
		case protowire.VarintType:
			v, n = protowire.ConsumeVarint(b)
		case protowire.Fixed64Type:
			v, n = protowire.ConsumeFixed64(b)
		case protowire.Fixed32Type:
			var v32 uint32
			v32, n = protowire.ConsumeFixed32(b)
			v = uint64(v32)
		case protowire.BytesType:
			s, n = protowire.ConsumeBytes(b)
		}
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		b = b[n:]
		visit(num, v, s)
	}
}

// resumedRun logs four steps and then steps 3 and 4 again, like a run that was killed after its
// checkpoint of step 2. Its explorer is ahead of the trainer and repeats step 4 alone.
func resumedRun(t *testing.T, dir string) {
	t.Helper()
	run := Run{Dir: dir, Name: "r/rl", Trains: true, Config: "name: r\nseed: 3\n",
		Settings: map[string]any{"seed": 3, "algorithm.optimizer.lr": 5e-3, "buffer.explorer_input.taskset.path": "a.jsonl", "flag": true}}
	m := openOne(t, "tensorboard", run)
	for s := range int64(4) {
		explored := rec("explorer", s+1, trinity.Metrics{"rollout/reward/mean": float64(s)})
		explored.Samples = []trinity.Sample{{Prompt: "1+1=?\nsay", Response: "<b>3", Reward: 0}, {Prompt: "2+2=?", Response: "4", Reward: 1}}
		logAll(t, m, explored)
		if s > 0 { // the trainer is a step behind
			logAll(t, m, rec("trainer", s, trinity.Metrics{"actor/lr": 0.5, "actor/final_loss": float64(s) / 4}))
		}
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	run.FromStep = 2
	m = openOne(t, "tensorboard", run)
	logAll(t, m, rec("trainer", 3, trinity.Metrics{"actor/final_loss": math.NaN()}),
		rec("trainer", 4, trinity.Metrics{"actor/final_loss": math.Inf(1)}))
	logAll(t, m, rec("explorer", 4, trinity.Metrics{"rollout/reward/mean": 7}), rec("explorer", 2, trinity.Metrics{"bench/a/mean@1": 1}))
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	m = openOne(t, "tensorboard", Run{Dir: dir, Name: "r/rl"}) // an explorer in a process of its own
	logAll(t, m, rec("explorer", 1, trinity.Metrics{"rollout/reward/mean": 9}))
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestTensorBoardFilesHoldThePoints(t *testing.T) {
	dir := t.TempDir()
	resumedRun(t, dir)
	files, err := filepath.Glob(filepath.Join(dir, "tensorboard", "events.out.tfevents.*"))
	if err != nil || len(files) != 2 {
		t.Fatalf("files %v, %v", files, err)
	}
	version, points := readEvents(t, files[0])
	want := []point{{0, "config", 0}, {0, "_hparams_/session_start_info", 0}}
	for s := range int64(4) {
		want = append(want, point{s + 1, "rollout/reward/mean", float32(s)}, point{s + 1, "samples/lowest_reward", 0},
			point{s + 1, "samples/highest_reward", 0})
		if s > 0 {
			want = append(want, point{s, "actor/final_loss", float32(s) / 4}, point{s, "actor/lr", 0.5})
		}
	}
	if version != "brain.Event:1" || !slices.Equal(points, want) {
		t.Errorf("version %q, points %v, want %v", version, points, want)
	}
	_, points = readEvents(t, files[1])
	if fmt.Sprint(points[2:4]) != "[{3 actor/final_loss NaN} {4 actor/final_loss +Inf}]" || points[0].Step != 2 {
		t.Errorf("resumed: %v", points)
	}
	if again, err := filepath.Glob(filepath.Join(dir, "tensorboard", "explorer", "*")); err != nil || len(again) != 1 {
		t.Errorf("an explorer alone has %v, %v", again, err)
	}
}

// Every event file of TensorFlow begins with a length of 24 and its checksum (masked CRC-32C).
func TestRecordsAreFramed(t *testing.T) {
	got := appendRecord(nil, make([]byte, 24))
	if want := []byte{0x18, 0, 0, 0, 0, 0, 0, 0, 0xa3, 0x7f, 0x4b, 0x22}; !slices.Equal(got[:12], want) {
		t.Errorf("header % x, want % x", got[:12], want)
	}
}

// TensorBoard 2.x read testdata/tensorboard.json from the files of resumedRun.
func TestTensorBoardReadsTheFiles(t *testing.T) {
	python := os.Getenv("TRINITY_TENSORBOARD_PYTHON")
	if python == "" {
		t.Skip("TRINITY_TENSORBOARD_PYTHON names no Python with tensorboard")
	}
	dir := t.TempDir()
	resumedRun(t, dir)
	out, err := exec.CommandContext(t.Context(), python, "testdata/read_tensorboard.py", filepath.Join(dir, "tensorboard")).Output()
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := os.ReadFile("testdata/tensorboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var got, want any
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(recorded, &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("TensorBoard reads\n%s\nrecorded\n%s", out, recorded)
	}
}
