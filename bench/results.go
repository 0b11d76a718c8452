package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/trinity-go/trinity/internal/durable"
)

// quiet is the share of the cores that other programs may take beside a row that says something.
const quiet = .05

// keep puts a row among those of its processor in dir, a row a line. A row of the same workload, peer, storage and kernels is replaced,
// unless the same engine was measured as often on a quiet machine, and the new row was not.
func keep(dir string, m machine, row Row) error {
	same := func(r Row) bool {
		return r.Workload == row.Workload && r.Peer == row.Peer && r.DType == row.DType && r.Kernels == row.Kernels
	}
	order := func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Kernels, b.Kernels), cmp.Compare(rank(a.Workload, a.Peer), rank(b.Workload, b.Peer)))
	}
	rows, err := readLines[Row](fileOf(dir, m))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	better := func(r Row) bool {
		return same(r) && r.Machine.Commit == row.Machine.Commit && r.Runs >= row.Runs && r.Machine.Foreign <= quiet
	}
	if row.Machine.Foreign > quiet && slices.ContainsFunc(rows, better) {
		fmt.Fprintf(os.Stderr, "%s: other programs took %s of the cores: the row that was measured without them is kept\n", row.Workload, percent(row.Machine.Foreign))
		return nil
	}
	return replace(fileOf(dir, m), row, same, order)
}

// keepTimes does so with a table of times, in a folder of their own.
func keepTimes(dir string, t timeTable) error {
	same := func(o timeTable) bool {
		return o.Workload == t.Workload && o.DType == t.DType && o.Kernels == t.Kernels
	}
	order := func(a, b timeTable) int {
		return cmp.Or(cmp.Compare(a.Kernels, b.Kernels), cmp.Compare(rank(a.Workload, ""), rank(b.Workload, "")))
	}
	return replace(fileOf(filepath.Join(dir, "profiles"), t.Machine), t, same, order)
}

// fileOf is named after the processor.
func fileOf(dir string, m machine) string { return filepath.Join(dir, slug(m.CPU)+".json") }

// rank orders rows as the workloads and their peers stand in the program.
func rank(name, peer string) int {
	const most = 100 // peers of a workload
	at := slices.Index(names(), name)
	if at < 0 {
		return -1
	}
	return at*most + slices.IndexFunc(workloads[at].rivals, func(r rival) bool { return r.name == peer })
}

// replace puts a line into a file of them, in place of the same if it is there.
func replace[T any](path string, line T, same func(T) bool, order func(a, b T) int) error {
	lines, err := readLines[T](path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	lines = append(slices.DeleteFunc(lines, same), line)
	slices.SortStableFunc(lines, order)
	var text bytes.Buffer
	for _, l := range lines {
		if err := json.NewEncoder(&text).Encode(l); err != nil {
			return err
		}
	}
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), durable.WriteFile(path, text.Bytes()))
}

// readLines decodes a file of JSON objects.
func readLines[T any](path string) (lines []T, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	for {
		var line T
		switch err := d.Decode(&line); {
		case errors.Is(err, io.EOF):
			return lines, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		lines = append(lines, line)
	}
}

// report is what a document says of the rows of a file: a table for each kernel set, then how each row came about.
func report(rows []Row) string {
	if len(rows) == 0 {
		return ""
	}
	var b strings.Builder
	first := &rows[0]
	fmt.Fprintf(&b, "### %s, %d cores\n\n", first.Machine.CPU, first.Machine.Cores)
	fmt.Fprintf(&b, "Limits: %s GFLOP/s f32 at best, %s half of the time, %s GB/s. Peers: %s.\n\n", between(rows, registersAlone),
		between(rows, func(l limits) float64 { return l.Sustained }), between(rows, func(l limits) float64 { return l.GBps }), versions(rows))
	fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
	disturbed := false
	for i := range rows {
		mark := ""
		if rows[i].Machine.Foreign > quiet {
			mark, disturbed = " \\*", true
		}
		fmt.Fprintf(&b, "| %s%s |\n", strings.Join(rows[i].cells(), " | "), mark)
	}
	if disturbed {
		fmt.Fprintf(&b, "\n\\* Other programs took more than %s of the cores meanwhile, which may flatter us.\n", percent(quiet))
	}
	b.WriteString("\n| workload | peer | day | commit | command | our runs | their runs |\n|---|---|---|---|---|---|---|\n")
	for i := range rows {
		r := &rows[i]
		theirs := runsText(r.TheirRuns)
		if r.Why != "" {
			theirs = strings.ReplaceAll(strings.ReplaceAll(r.Why, "\n", "; "), "|", "\\|")
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | `%s` | %s | %s |\n", r.cells()[0], r.cells()[1], r.Machine.Date, r.Machine.Commit, r.Command, runsText(r.OurRuns), theirs)
	}
	return b.String()
}

// registersAlone is the rate of multiply-adds; 0 for rows so old that another one stands in its place.
func registersAlone(l limits) float64 {
	if l.Product == 0 {
		return 0
	}
	return l.GFLOPs
}

// between is the least and the greatest of what the sessions measured, or the one figure; a dash if none did.
func between(rows []Row, figure func(limits) float64) string {
	var known []float64
	for i := range rows {
		if v := figure(rows[i].Limits); v > 0 {
			known = append(known, v)
		}
	}
	if len(known) == 0 {
		return "–"
	}
	least, greatest := number(slices.Min(known)), number(slices.Max(known))
	if least == greatest {
		return least
	}
	return least + "–" + greatest
}

// versions names those of all peers.
func versions(rows []Row) string {
	var all []string
	for i := range rows {
		for _, v := range strings.Split(rows[i].PeerVersions, ", ") {
			if v != "" && !slices.Contains(all, v) {
				all = append(all, v)
			}
		}
	}
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ", ")
}

func runsText(runs []sample) string {
	if len(runs) == 0 {
		return "–"
	}
	var out []string
	for _, s := range runs {
		text := number(s.Value)
		if s.Loss != 0 {
			text += fmt.Sprintf(" (loss %.4f)", s.Loss)
		}
		if s.Rollout != 0 {
			text += fmt.Sprintf(" (rollout %s s)", number(s.Rollout))
		}
		if s.Delivered != nil {
			text += fmt.Sprintf(" (%s)", s.Delivered)
		}
		if s.P50 != 0 {
			text += fmt.Sprintf(" (p50 %s ms)", number(s.P50))
		}
		if s.P99 != 0 {
			text += fmt.Sprintf(" (p99 %s ms)", number(s.P99))
		}
		if s.CPU != 0 {
			text += fmt.Sprintf(" (CPU %s s)", number(s.CPU))
		}
		if s.Cost != 0 {
			text += fmt.Sprintf(" (%s ms of a core a token)", number(s.Cost*1e3))
		}
		if s.Again != 0 {
			text += fmt.Sprintf(" (again %s s)", number(s.Again))
		}
		out = append(out, text)
	}
	if sent := runs[0].Sent; sent > 0 {
		out = append(out, fmt.Sprintf("%.1f MB sent", float64(sent)/1e6))
	}
	if size := runs[0].Bytes; size > 0 {
		out = append(out, fmt.Sprintf("%d bytes each", size))
	}
	if micro := runs[0].Micro; micro > 0 {
		out = append(out, fmt.Sprintf("training %d sequences at once", micro))
	}
	return strings.Join(out, ", ")
}

// slug makes a file name of a text.
func slug(text string) string {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return strings.Join(words, "-")
}
