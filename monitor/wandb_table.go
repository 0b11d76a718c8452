package monitor

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/trinity-go/trinity/internal/durable"
)

// wandbTable names the rollouts in the run's history.
const wandbTable = "rollouts"

// sendTables sends tables. A table is a file of the run, and a row of its history that names the file.
func (w *wandb) sendTables(ctx context.Context, tables []Table) error {
	for i, t := range tables {
		row := wandbRow{number: w.tail.at.Records + w.tail.at.TableCount + int64(i)}
		if err := w.sendTable(ctx, row, t); err != nil {
			return err
		}
	}
	return nil
}

func (w *wandb) sendTable(ctx context.Context, row wandbRow, t Table) error {
	content, err := json.Marshal(t.grid())
	if err != nil {
		return err
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(content))
	path := fmt.Sprintf("media/table/%s_%d_%s.table.json", wandbTable, t.Step, sum[:20])
	local := filepath.Join(w.dir+"/files", filepath.FromSlash(path))
	if err := durable.MkdirAll(filepath.Dir(local), 0o755); err != nil {
		return err
	}
	if err := durable.WriteFile(local, content); err != nil {
		return err
	}
	named, err := json.Marshal(map[string]any{
		"_type": "table-file", "path": path, "sha256": sum, "size": len(content), "log_mode": "IMMUTABLE",
		"ncols": len(rolloutColumns), "nrows": len(t.Rollouts),
	})
	if err != nil {
		return err
	}
	w.begin(&row, t.Time, t.Step)
	row.add(wandbTable, string(named))
	file := row.message(wandbFiles, message(nil, 1, message(nil, 1, []byte(path))))
	newest := map[string]string{wandbTable: string(named)}
	if err := w.file.write(row.number, [][]byte{file, row.history(), w.summarize(&row, newest)}); err != nil || !w.server {
		return err
	}
	if err := w.upload(ctx, path, content); err != nil {
		return err
	}
	return w.sendRows(ctx, row.number, []string{row.json()}, []string{path})
}
