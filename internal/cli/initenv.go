package cli

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/bridge"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/model"
)

var (
	//go:embed init/env.py
	environmentScript []byte
	//go:embed init/env.yaml.tmpl
	environmentTemplate string
)

// theirEnvironment is the value of --task for a file of Python with an environment.
const theirEnvironment = "environment"

// environmentRecipe is how a new configuration plays. It follows from the file of Python.
type environmentRecipe struct {
	Script, Log          string
	Turns, EpisodeTokens int
}

// Bounds of what init looks at in an environment.
const (
	seededRows = 64 // rows of an environment that has none
	triedRows  = 100
)

var (
	environmentName = regexp.MustCompile(`(^|_)env(ironment)?(_|\.)`)
	stepMethod      = regexp.MustCompile(`(?m)^\s+(async )?def step\(`)
)

// isEnvironment reports whether a file of Python has an environment, or is to have one.
func (b *beginning) isEnvironment() bool {
	text, err := os.ReadFile(b.File)
	return b.Task == theirEnvironment || environmentName.MatchString(filepath.Base(b.File)) || err == nil && stepMethod.Match(text)
}

// environment writes a configuration that plays the environment of a file. If the file is not there, it
// becomes an example.
func (b *beginning) environment(cmd *cobra.Command) (err error) {
	b.Task, b.Script = theirEnvironment, b.File
	stem := strings.TrimSuffix(b.File, filepath.Ext(b.File))
	b.File, b.Log = stem+".yaml", stem+".log"
	if b.Minutes != 0 {
		return errors.New("--minutes: how many replies an episode has is not known before it is played: set buffer.total_steps in " + b.File)
	}
	if err := b.isFree(b.File); err != nil {
		return err
	}
	written, data := "", b.Data
	b.ReplyTokens = 64
	if _, missing := os.Stat(b.Script); missing != nil {
		written, b.ReplyTokens = b.Script+" and ", 8
		if err := durable.WriteFile(b.Script, environmentScript); err != nil {
			return err
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, os.Remove(b.Script))
			}
		}()
	}
	if err := b.ask(cmd); err != nil {
		return err
	}
	if data != "" {
		if err := b.openData(cmd); err != nil {
			return err
		}
	}
	if err := b.play(cmd.Context()); err != nil {
		return err
	}
	files, err := b.planEnvironment()
	if err != nil {
		return err
	}
	return b.write(cmd, files, written)
}

// play asks the environment for its rows, and tries to begin episodes of the first.
func (b *beginning) play(ctx context.Context) error {
	python := bridge.Python{Python: "python3"}
	if err := python.Has("json"); err != nil {
		return err
	}
	class := python.Open(bridge.PythonClass, 1)
	defer class.Close()
	var of struct {
		Class string
		Needs []string
	}
	load := map[string]any{"do": "load", "file": b.Script, "name": "", "kwargs": map[string]any{}, "timeout": 30, "log": ""}
	if err := class.Call(ctx, load, &of); err != nil {
		return err
	}
	var has struct{ Rows []map[string]any }
	if b.rows == nil {
		if err := class.Call(ctx, map[string]any{"do": "rows"}, &has); err != nil {
			return err
		}
		switch {
		case has.Rows != nil && len(has.Rows) == 0:
			return fmt.Errorf("%s: rows is empty: give it a dict for each episode, or leave it out", b.Script)
		case has.Rows == nil && len(of.Needs) > 0:
			return fmt.Errorf("%s: reset takes %s, and there are no rows: give them with --data FILE, or give class %s a list of dicts, rows",
				b.Script, strings.Join(of.Needs, ", "), of.Class)
		case has.Rows == nil:
			for seed := range seededRows {
				has.Rows = append(has.Rows, map[string]any{"seed": seed})
			}
		}
		b.rows = classRows{b.Script, has.Rows}
	}
	for i := range min(b.rows.Len(), triedRows) {
		row, err := b.rows.Row(i)
		if err != nil {
			return err
		}
		var first struct{ Messages []trinity.Message }
		if err := class.Call(ctx, map[string]any{"do": "reset", "row": row, "seed": i}, &first); err != nil {
			return fmt.Errorf("%s: %w", b.rows.Where(i), err)
		}
		said := 0
		for _, m := range first.Messages {
			said += len(m.Content)
		}
		b.said = max(b.said, said)
	}
	b.Purpose = fmt.Sprintf("Learns to play the class %s of %s", of.Class, b.Script)
	return nil
}

// planEnvironment decides how to play, and returns the files that divide the rows.
func (b *beginning) planEnvironment() (map[string][]byte, error) {
	var all texts
	for i := range b.rows.Len() {
		row, err := b.rows.Row(i)
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(row)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.rows.Where(i), err)
		}
		all.prompts = append(all.prompts, string(text))
	}
	b.Train, b.Questions, b.Steps, b.Turns = b.Data, 4, 20, 10
	b.PromptTokens = b.promptTokens(b.said)
	b.EpisodeTokens = b.PromptTokens + b.Turns*(b.ReplyTokens+64)
	if c, err := model.ReadConfig(b.Model); err == nil {
		b.EpisodeTokens = min(b.EpisodeTokens, c.MaxPositions)
	}
	files, err := b.divide(all)
	if err == nil && files == nil && b.Data == "" {
		return nil, fmt.Errorf("%s: rows has %d different rows: give it %d or more, or leave it out", b.Script, len(all.prompts), fewestRows)
	}
	return files, err
}

// classRows are the rows of a class.
type classRows struct {
	file string
	rows []map[string]any
}

// Len returns the number of rows.
func (c classRows) Len() int { return len(c.rows) }

// Row returns a row.
func (c classRows) Row(i int) (map[string]any, error) { return c.rows[i], nil }

// Where names a row.
func (c classRows) Where(i int) string { return fmt.Sprintf("%s: rows[%d]", c.file, i) }
