package monitor

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/wire/protobuf"
)

// Numbers of severities.
const (
	otelInfo  = 9
	otelWarn  = 13
	otelError = 17
)

var otelSeverities = map[int64]string{otelInfo: "INFO", otelWarn: "WARN", otelError: "ERROR"}

// Names of events, which tell the kinds of log records apart.
const (
	otelSaid    = "trinity.said"
	otelFailed  = "trinity.rollout.failed"
	otelDropped = "trinity.rollout.dropped"
	otelEnded   = "trinity.run.ended"
)

func (o *otel) sendLogs(ctx context.Context, all [][]byte) error {
	return o.offer(ctx, "logs", "logs", all, &o.noLogs)
}

// log encodes a log record. That of a failed rollout or a dropped answer belongs to the rollout's span.
func (o *otel) log(process int, l LogRecord) []byte {
	f := l.Failure
	if f == nil {
		severity := int64(otelInfo)
		if strings.HasPrefix(l.Text, "WARNING") {
			severity = otelWarn
		}
		return logRecord(l.Time, severity, otelSaid, l.Text)
	}
	severity, event, kind := int64(otelWarn), otelFailed, f.Kind
	if f.Kind == trinity.DroppedAnswer {
		severity, event, kind = otelInfo, otelDropped, ""
	}
	b := logRecord(l.Time, severity, event, l.Text)
	_, stack, _ := strings.Cut(f.Reason, "\n")
	b = addTexts(b, 6, [][2]string{
		{"error.type", string(kind)}, {"exception.stacktrace", stack}, {"trinity.role", f.Role}, {"trinity.task", f.Task},
		{"trinity.rollout", f.ID},
	})
	b = message(b, 6, attribute("trinity.step", varint(nil, 3, f.Step)))
	b = message(b, 6, attribute("trinity.retries", varint(nil, 3, int64(f.Retries))))
	group, own, _ := o.ids(process, f.Role, f.ID, f.Step)
	return message(message(b, 9, group), 10, own)
}

// endLog encodes how the run ended.
func (o *otel) endLog(status Status) []byte {
	severity := map[Status]int64{Finished: otelInfo, Stopped: otelWarn, Failed: otelError}[status]
	return logRecord(time.Now(), severity, otelEnded, "the run has "+map[Status]string{
		Finished: "finished", Stopped: "been stopped", Failed: "failed"}[status])
}

// logRecord encodes a LogRecord without attributes.
func logRecord(at time.Time, severity int64, event, text string) []byte {
	b := protobuf.AppendFixed64(nil, 1, uint64(at.UnixNano()))
	b = message(varint(b, 2, severity), 3, []byte(otelSeverities[severity]))
	b = message(b, 5, message(nil, 1, []byte(strings.ToValidUTF8(text, "�"))))
	b = protobuf.AppendFixed64(b, 11, uint64(at.UnixNano())) // when it was seen
	return message(b, 12, []byte(event))
}

// addTexts adds attributes that are not empty to a message.
func addTexts(b []byte, field protowire.Number, pairs [][2]string) []byte {
	for _, a := range pairs {
		if a[1] != "" {
			b = message(b, field, attribute(a[0], message(nil, 1, []byte(strings.ToValidUTF8(a[1], "�")))))
		}
	}
	return b
}

// modelName returns the name of a model: that at the hub, or of its file or directory.
func modelName(path string) string {
	for part := range strings.SplitSeq(filepath.ToSlash(path), "/") {
		if name, ok := strings.CutPrefix(part, "models--"); ok { // in the hub's cache
			return strings.Replace(name, "--", "/", 1)
		}
	}
	base := filepath.Base(path)
	dir := filepath.Dir(path)
	isHub := !strings.HasSuffix(base, ".gguf") && dir == filepath.Base(dir) && dir != "." && dir != ".." && dir != "~" && dir != "/"
	if isHub || path == "" {
		return path // owner/name
	}
	return strings.TrimSuffix(base, ".gguf")
}
