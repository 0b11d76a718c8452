package monitor

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/failpoint"
	"github.com/trinity-go/trinity/internal/wire/protobuf"
)

var failTensorBoard = failpoint.New("monitor.tensorboard.write")

func init() {
	Monitors.Register("tensorboard",
		"Writes event files for TensorBoard to tensorboard in the run's monitor directory: metrics, settings, sample answers.",
		func() trinity.Monitor { return &tensorBoard{} })
}

// tensorBoard writes an event file for each process: tensorflow.Event messages in TFRecord framing,
// which are one run of TensorBoard. An explorer in a process of its own is another run, because
// TensorBoard follows one growing file per run. NaN and infinities stay as they are.
//
// A resumed run repeats the steps after its checkpoint, and explorer and trainer are at different
// steps. In files of version 1 a summary whose step is before that of the last event replaces the
// points of its own names from its step on. So an empty event of a late step precedes the first
// record of a role, and one of the record's step follows it. Version 2 replaces all names at once.
type tensorBoard struct {
	mu    sync.Mutex
	run   Run
	dir   string
	file  *os.File // nil before the first record
	begun startedRoles
}

// lateStep is a step after all others.
const lateStep = 1 << 40

// Writes returns the directory below the monitor directory and its contents, for trinity check.
func (*tensorBoard) Writes() (path, what string) { return "tensorboard", "event files for TensorBoard" }

// Field numbers of tensorflow.Event, Summary and Summary.Value (event.proto, summary.proto).
const (
	eventWallTime    protowire.Number = 1 // double, seconds since 1970
	eventStep        protowire.Number = 2 // int64
	eventFileVersion protowire.Number = 3 // string
	eventSummary     protowire.Number = 5
	summaryValue     protowire.Number = 1
	valueTag         protowire.Number = 1 // string
	valueSimple      protowire.Number = 2 // float
)

// Open implements [Opener].
func (t *tensorBoard) Open(run Run) error {
	t.run, t.dir = run, filepath.Join(run.Dir, "tensorboard")
	if !run.Trains {
		t.dir = filepath.Join(t.dir, "explorer")
	}
	return os.MkdirAll(t.dir, 0o755)
}

// Log implements [trinity.Monitor].
func (t *tensorBoard) Log(_ context.Context, r trinity.Record) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file == nil {
		if err := t.begin(r); err != nil {
			return err
		}
	}
	out := appendRecord(nil, event(r, summary(append(scalars(r.Metrics), samples(r.Samples)...))))
	if t.begun.first(r) {
		late := appendRecord(nil, event(trinity.Record{Step: lateStep, Time: r.Time}, nil))
		out = appendRecord(append(late, out...), event(r, nil))
	}
	_, err := failTensorBoard.Write(t.file, t.file.Name(), out)
	return err
}

// Close implements [trinity.Monitor].
func (t *tensorBoard) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file == nil {
		return nil
	}
	return t.file.Close()
}

var eventFiles atomic.Int64 // number of files that this process has opened

// begin opens the event file of this process. It begins with the version of the format and the
// settings of the run.
func (t *tensorBoard) begin(r trinity.Record) error {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost" // it only helps to make the name unique
	}
	name := fmt.Sprintf("events.out.tfevents.%010d.%s.%d.%d", time.Now().Unix(), host, os.Getpid(), eventFiles.Add(1))
	f, err := os.OpenFile(filepath.Join(t.dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	version := protowire.AppendTag(nil, eventFileVersion, protowire.BytesType)
	version = protowire.AppendString(version, "brain.Event:1")
	out := appendRecord(nil, event(trinity.Record{Time: r.Time}, version))
	begins := trinity.Record{Step: t.run.FromStep, Time: r.Time}
	if values := t.settings(r.Time); len(values) > 0 {
		out = appendRecord(out, event(begins, summary(values)))
	}
	if _, err := f.Write(out); err != nil {
		return errors.Join(err, f.Close())
	}
	t.file = f
	return nil
}

// event returns a tensorflow.Event with the record's time and step, and the encoded field what.
func event(r trinity.Record, what []byte) []byte {
	b := protowire.AppendTag(nil, eventWallTime, protowire.Fixed64Type)
	b = protowire.AppendFixed64(b, math.Float64bits(float64(r.Time.UnixNano())/1e9))
	b = protowire.AppendTag(b, eventStep, protowire.VarintType)
	b = protowire.AppendVarint(b, uint64(r.Step))
	return append(b, what...)
}

// summary returns the event's summary of encoded values.
func summary(values [][]byte) []byte {
	var all []byte
	for _, v := range values {
		all = message(all, summaryValue, v)
	}
	return message(nil, eventSummary, all)
}

// scalars returns the values of metrics, sorted by name.
func scalars(m trinity.Metrics) (values [][]byte) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		v := message(nil, valueTag, []byte(name))
		v = protowire.AppendTag(v, valueSimple, protowire.Fixed32Type)
		values = append(values, protowire.AppendFixed32(v, math.Float32bits(float32(m[name]))))
	}
	return values
}

// message appends a field that holds text or an encoded message.
func message(b []byte, field protowire.Number, content []byte) []byte {
	return protobuf.AppendBytes(b, field, content)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// maskedCRC returns TFRecord's checksum: CRC-32C, rotated right by 15 bits, plus a constant.
func maskedCRC(data []byte) uint32 {
	c := crc32.Checksum(data, castagnoli)
	return (c>>15 | c<<17) + 0xa282ead8
}

// appendRecord appends data in TFRecord framing: length, its checksum, data, its checksum.
func appendRecord(b, data []byte) []byte {
	start := len(b)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(data)))
	b = binary.LittleEndian.AppendUint32(b, maskedCRC(b[start:]))
	b = append(b, data...)
	return binary.LittleEndian.AppendUint32(b, maskedCRC(data))
}
