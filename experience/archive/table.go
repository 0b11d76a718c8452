package archive

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/parquet-go/parquet-go"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/durable"
	"github.com/trinity-go/trinity/experience"
)

// table is a directory of Parquet files.
type table struct {
	dir  string
	step int64 // written last
	more int   // files of it so far
}

// row is an experience in columns.
type row struct {
	ID             string   `parquet:"id"`
	Step           int64    `parquet:"step"`
	Task           string   `parquet:"task,dict"`
	Run            int64    `parquet:"run"`
	Turn           int64    `parquet:"turn"`
	Prompt         string   `parquet:"prompt,dict"`
	Response       string   `parquet:"response"`
	Reward         *float64 `parquet:"reward,optional"`
	Reason         string   `parquet:"reason"`
	ModelVersion   int64    `parquet:"model_version"`
	OldestVersion  int64    `parquet:"oldest_version"`
	Truncated      string   `parquet:"truncated"`
	PromptTokens   int64    `parquet:"prompt_tokens"`
	ResponseTokens int64    `parquet:"response_tokens"`
	Experience     []byte   `parquet:"experience"`
}

const partName = "step-%09d-%d.parquet"

func (t *table) open(path string, step int64) error {
	t.dir = path
	parts, err := partsOf(path)
	if err != nil {
		return err
	}
	rest := false
	for _, p := range parts {
		rest = rest || p.step < step
	}
	if !rest && len(parts) > 0 {
		if err := moveAside(path); err != nil {
			return err
		}
		parts = nil
	}
	for _, p := range parts {
		if p.step >= step {
			if err := os.Remove(filepath.Join(path, p.name)); err != nil {
				return err
			}
		}
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	return durable.RemoveLeftovers(path)
}

// part is a file of a table.
type part struct {
	name string
	step int64
}

// partsOf lists the files of a directory that is a table, or is not there.
func partsOf(dir string) (parts []part, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: experiences as Parquet are a directory", err)
	}
	for _, e := range entries {
		p, more := part{name: e.Name()}, 0
		if e.Name()[0] == '.' { // half written, or the system's
			continue
		}
		if _, err := fmt.Sscanf(e.Name(), partName, &p.step, &more); err != nil {
			return nil, fmt.Errorf("%s: %s is no step of experiences: move it away, or set another path", dir, e.Name())
		}
		parts = append(parts, p)
	}
	return parts, nil
}

func (t *table) write(step int64, exps []*trinity.Experience) error {
	rows := make([]row, len(exps))
	for i, e := range exps {
		data, err := experience.Append(nil, e)
		if err != nil {
			return err
		}
		rows[i] = row{
			ID: e.ID.String(), Step: e.ID.Step, Task: e.ID.Task, Run: int64(e.ID.Run), Turn: int64(e.ID.Turn), Prompt: e.Prompt, Response: e.Response,
			Reason: e.Reward.Reason, ModelVersion: e.Versions[1], OldestVersion: e.Versions[0], Truncated: string(e.Truncated),
			PromptTokens: int64(e.PromptLen), ResponseTokens: int64(len(e.Tokens) - e.PromptLen), Experience: data,
		}
		if e.Reward.Valid {
			rows[i].Reward = &e.Reward.Value
		}
	}
	if step != t.step {
		t.step, t.more = step, 0
	}
	err := durable.Replace(filepath.Join(t.dir, fmt.Sprintf(partName, step, t.more)), func(w io.Writer) error {
		p := parquet.NewGenericWriter[row](w, parquet.Compression(&parquet.Zstd), parquet.DataPageVersion(1))
		_, err := p.Write(rows)
		return errors.Join(err, p.Close())
	})
	t.more++
	return err
}

func (t *table) close() error { return nil }
