package monitor

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
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
)

var failTensorBoard = failpoint.New("monitor.tensorboard.write")

func init() {
	Monitors.Register("tensorboard", "Writes event files for TensorBoard to tensorboard/<role> in the run's monitor directory.",
		func() trinity.Monitor { return &tensorBoard{} })
}

// tensorBoard writes event files, one per role and process: tensorflow.Event messages in TFRecord
// framing. In a resumed run, a session start at its step precedes a role's first record. There
// TensorBoard drops the points of that step and later steps, which the killed run had logged. NaN
// and infinities stay as they are.
type tensorBoard struct {
	mu    sync.Mutex
	dir   string
	begun begun
	files map[string]*os.File
}

// Writes returns the directory below the monitor directory and its contents, for trinity check.
func (*tensorBoard) Writes() (path, what string) { return "tensorboard", "event files for TensorBoard" }

// Field numbers of tensorflow.Event, Summary, Summary.Value and SessionLog (event.proto,
// summary.proto).
const (
	eventWallTime    protowire.Number = 1 // double, seconds since 1970
	eventStep        protowire.Number = 2 // int64
	eventFileVersion protowire.Number = 3 // string
	eventSummary     protowire.Number = 5
	eventSessionLog  protowire.Number = 7
	summaryValue     protowire.Number = 1
	valueTag         protowire.Number = 1 // string
	valueSimple      protowire.Number = 2 // float
	sessionStatus    protowire.Number = 1
	sessionStart                      = 1
)

// Open implements [Opener].
func (t *tensorBoard) Open(run Run) error {
	t.dir, t.files = filepath.Join(run.Dir, "tensorboard"), map[string]*os.File{}
	return os.MkdirAll(t.dir, 0o755)
}

// Log implements [trinity.Monitor].
func (t *tensorBoard) Log(_ context.Context, r trinity.Record) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	f, err := t.file(r)
	if err != nil {
		return err
	}
	var out []byte
	if t.begun.first(r) {
		out = appendRecord(out, event(r, sessionStarts()))
	}
	out = appendRecord(out, event(r, summary(r.Metrics)))
	_, err = failTensorBoard.Write(f, f.Name(), out)
	return err
}

// Close implements [trinity.Monitor].
func (t *tensorBoard) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var errs []error
	for _, f := range t.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

var eventFiles atomic.Int64 // number of files that this process has opened

// file returns the role's event file. A new file begins with the version of the format.
func (t *tensorBoard) file(r trinity.Record) (*os.File, error) {
	if f, ok := t.files[r.Role]; ok {
		return f, nil
	}
	dir := filepath.Join(t.dir, r.Role)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost" // it only helps to make the name unique
	}
	name := fmt.Sprintf("events.out.tfevents.%010d.%s.%d.%d", time.Now().Unix(), host, os.Getpid(), eventFiles.Add(1))
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	version := protowire.AppendTag(nil, eventFileVersion, protowire.BytesType)
	version = protowire.AppendString(version, "brain.Event:2")
	if _, err := f.Write(appendRecord(nil, event(trinity.Record{Time: r.Time}, version))); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	t.files[r.Role] = f
	return f, nil
}

// event returns a tensorflow.Event with the record's time and step, and the encoded field what.
func event(r trinity.Record, what []byte) []byte {
	b := protowire.AppendTag(nil, eventWallTime, protowire.Fixed64Type)
	b = protowire.AppendFixed64(b, math.Float64bits(float64(r.Time.UnixNano())/1e9))
	b = protowire.AppendTag(b, eventStep, protowire.VarintType)
	b = protowire.AppendVarint(b, uint64(r.Step))
	return append(b, what...)
}

// summary returns the event's summary of scalars, sorted by name.
func summary(m trinity.Metrics) []byte {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	var values []byte
	for _, name := range names {
		v := protowire.AppendTag(nil, valueTag, protowire.BytesType)
		v = protowire.AppendString(v, name)
		v = protowire.AppendTag(v, valueSimple, protowire.Fixed32Type)
		v = protowire.AppendFixed32(v, math.Float32bits(float32(m[name])))
		values = protowire.AppendTag(values, summaryValue, protowire.BytesType)
		values = protowire.AppendBytes(values, v)
	}
	b := protowire.AppendTag(nil, eventSummary, protowire.BytesType)
	return protowire.AppendBytes(b, values)
}

func sessionStarts() []byte {
	status := protowire.AppendTag(nil, sessionStatus, protowire.VarintType)
	status = protowire.AppendVarint(status, sessionStart)
	b := protowire.AppendTag(nil, eventSessionLog, protowire.BytesType)
	return protowire.AppendBytes(b, status)
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
