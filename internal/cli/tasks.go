package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity/internal/bridge"
	"github.com/trinity-go/trinity/internal/durable"
)

// tasksOf is what `tasks` writes.
type tasksOf struct {
	bridge.Python
	library bridge.Library
	name    string
	config  map[string]any
	count   int
	output  string
}

func tasksCommand() *cobra.Command {
	t := tasksOf{}
	config := ""
	cmd := &cobra.Command{
		Use:   "tasks LIBRARY NAME --output FILE",
		Short: "Write the tasks of a Python library as a taskset",
		Long: "Write tasks as JSON lines with the columns that a reward of the library reads. LIBRARY is\n" +
			"reasoning_gym, with NAME a generator such as countdown, for reasoning_gym_reward; or\n" +
			"verifiers, with NAME a taskset that is installed, for verifiers_reward. The question is\n" +
			"in the column question. The command never overwrites a file.",
		Args: wantArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			t.library, t.name = bridge.Library{}, args[1]
			for _, l := range []bridge.Library{bridge.ReasoningGym, bridge.Verifiers} {
				if l.Module == args[0] {
					t.library = l
				}
			}
			t.config = map[string]any{}
			switch _, err := os.Lstat(t.output); {
			case t.library.Module == "":
				return fmt.Errorf("there is no library %q: want %s or %s", args[0], bridge.ReasoningGym.Module, bridge.Verifiers.Module)
			case t.count < 1:
				return fmt.Errorf("--count is %d: want at least 1", t.count)
			case !errors.Is(err, fs.ErrNotExist):
				return fmt.Errorf("%s exists: name another file", t.output)
			}
			if err := json.Unmarshal([]byte(config), &t.config); err != nil || t.config == nil {
				return fmt.Errorf("--config is %q: want a JSON object", config)
			}
			return t.write(cmd)
		},
	}
	set := cmd.Flags()
	set.StringVarP(&t.output, "output", "o", "", "file for the rows")
	set.StringVar(&t.Python.Python, "python", "python3", "interpreter that has the library")
	set.StringVar(&config, "config", "{}", "arguments of the generator or taskset, as a JSON object")
	set.IntVar(&t.count, "count", 1000, "tasks at most")
	_ = cmd.MarkFlagRequired("output") // the flag is there
	return cmd
}

// write writes the rows.
func (t *tasksOf) write(cmd *cobra.Command) error {
	if err := t.Has(t.library.Module); err != nil {
		return err
	}
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	b := t.Open(t.library.Script, 1)
	defer b.Close()
	var text bytes.Buffer
	rows := 0
	for last := false; !last && rows < t.count; {
		most := min(t.count-rows, 100)
		some, err := t.rows(ctx, b, rows, most)
		if err != nil {
			return orInterrupted(ctx, fmt.Errorf("%s %s: %w", t.library.Module, t.name, err))
		}
		for _, row := range some {
			text.Write(append(row, '\n'))
		}
		rows += len(some)
		last = len(some) < most
	}
	if rows == 0 {
		return fmt.Errorf("%s %s has no tasks", t.library.Module, t.name)
	}
	if err := durable.WriteFile(t.output, text.Bytes()); err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%d tasks of %s: %s\n", rows, t.name, t.output)
	return nil
}

// rowsPatience bounds the time for some rows, with the import of the library before the first.
const rowsPatience = 10 * time.Minute

func (t *tasksOf) rows(ctx context.Context, b *bridge.Bridge, start, most int) ([]json.RawMessage, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, rowsPatience, fmt.Errorf("no answer within %v", rowsPatience))
	defer cancel()
	return b.Rows(ctx, t.name, t.config, start, most)
}
