package main

import (
	"bytes"
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
)

// keep puts a row among those of its processor and day in dir: NAME.json, a row a line, and NAME.txt, the table. A row of the same workload
// and storage is replaced.
func keep(dir string, m machine, row Row) error {
	base := filepath.Join(dir, slug(m.CPU)+"-"+m.Date)
	data, err := os.ReadFile(base + ".json")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	rows, err := decodeRows(data)
	if err != nil {
		return fmt.Errorf("%s.json: %w", base, err)
	}
	rows = slices.DeleteFunc(rows, func(r Row) bool { return r.Workload == row.Workload && r.DType == row.DType })
	rows = append(rows, row)
	slices.SortStableFunc(rows, func(a, b Row) int { return slices.Index(names(), a.Workload) - slices.Index(names(), b.Workload) })
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var lines, report bytes.Buffer
	for _, r := range rows {
		if err := json.NewEncoder(&lines).Encode(r); err != nil {
			return err
		}
	}
	if err := printReport(&report, m, rows); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(base+".json", lines.Bytes(), 0o644), os.WriteFile(base+".txt", report.Bytes(), 0o644))
}

func decodeRows(data []byte) ([]Row, error) {
	var rows []Row
	d := json.NewDecoder(bytes.NewReader(data))
	for {
		var r Row
		err := d.Decode(&r)
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
}

// printReport is the table and, for each row, how it was measured.
func printReport(out io.Writer, m machine, rows []Row) error {
	fmt.Fprintf(out, "%s, %d cores, %s\n\n", m.CPU, m.Cores, m.Date)
	if err := printTable(out, rows); err != nil {
		return err
	}
	fmt.Fprintln(out, "\nOurs and theirs are medians of alternating runs; peak RSS is ours / theirs; load is the load average of 1, 5 and 15 minutes before.")
	for i := range rows {
		r := &rows[i]
		fmt.Fprintf(out, "\n%s %s\n  %s\n  commit %s, load %s before, %s after; kernels %s, %.0f GFLOP/s, %.1f GB/s; %s\n", r.Workload, r.DType, r.Command,
			r.Machine.Commit, r.Machine.Load, r.LoadAfter, r.Limits.Kernels, r.Limits.GFLOPs, r.Limits.GBps, r.PeerVersions)
		fmt.Fprintf(out, "  ours   %s\n", runsText(r.OurRuns))
		if len(r.TheirRuns) > 0 {
			fmt.Fprintf(out, "  theirs %s\n", runsText(r.TheirRuns))
		}
	}
	return nil
}

func runsText(runs []sample) string {
	var out []string
	for _, s := range runs {
		text := number(s.Value)
		if s.Loss != 0 {
			text += fmt.Sprintf(" (loss %.4f)", s.Loss)
		}
		if s.Rollout != 0 {
			text += fmt.Sprintf(" (rollout %s s)", number(s.Rollout))
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// slug makes a file name of a text.
func slug(text string) string {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return strings.Join(words, "-")
}
