package config

import (
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// checkRules checks the rules between keys.
func (s *Settled) checkRules(r report) {
	data, method, w := &s.Data, &s.Method, s.Work
	s.checkPlace(r)
	s.Model.check(r)
	checkData(r, &s.Algorithm, &s.Buffer, w)
	checkStrategy(r, &s.Algorithm, &s.Batch, &s.Buffer, method, w)
	checkTeachers(r, &s.Algorithm, data, method, s.Teachers, w)
	checkAsked(r, s.Asked)
	checkEvaluation(r, &s.Algorithm, &s.Buffer, data, method, w)
	s.Model.checkRewardModel(r, &s.Algorithm, method, w)
	checkFormat(r, &s.Algorithm, &s.Buffer, data, method)
	checkSelectors(r, &s.Buffer, data)
	s.DataProcessor.checkCopies(r, &s.Buffer, w)
	checkInputs(r, &s.Buffer, data, &s.DataProcessor)
	checkRecording(r, &s.Buffer, w)
	checkTasksets(r, &s.Buffer, data, &s.Model, s.TaskPipeline, w)
	s.Cod.checkPacking(r, &s.Buffer, data, w)
	s.TaskPipeline.check(r)
	checkStore(r, &s.Buffer, w)
	s.Explorer.checkDrafts(r)
	checkEngines(r, &s.Engines, &s.Explorer, &s.Model, &s.Synchronizer, w)
	s.Service.check(r, &s.DataProcessor, w)
	checkTables(r, &s.Buffer, data, w)
	s.Algorithm.Optimizer.check(r, w, optimizerKey)
	checkMiniBatch(r, &s.Batch, &s.Trainer)
	s.Trainer.checkKeepBest(r, data, &s.Synchronizer, w)
	s.Algorithm.RolloutCorrection.check(r, &s.Algorithm, method, w)
	checkTraffic(r, &s.Algorithm, method, &s.Synchronizer, w)
	s.Algorithm.checkScoring(r, method, w)
	checkReplay(r, &s.Algorithm, &s.Buffer, data, w)
	s.Critic.check(r, &s.Algorithm, &s.Batch, &s.Trainer, w)
	s.Model.Tinker.check(r, method, w)
	s.Model.ExternalModel.check(r, w)
}

var plainName = regexp.MustCompile(`^[\p{L}\p{N}_-]+$`)

// IsPlain reports whether a name can be part of file names, ids of tasks, lists and lines for
// people: it has only letters, digits, - and _.
func IsPlain(name string) bool { return plainName.MatchString(name) }

// maxName bounds a name, in bytes: file systems take 255 for a file, whose name has more parts.
const maxName = 128

// wrongName returns what is wrong with a name that stands in paths and lines for people; "" if
// nothing is.
func wrongName(name string) string {
	if len(name) > maxName {
		return fmt.Sprintf("has %d bytes: want at most %d", len(name), maxName)
	}
	if strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return fmt.Sprintf("%q has characters that cannot be printed", name)
	}
	return ""
}

// isAddress reports whether a text is host:port.
func isAddress(text string) bool {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// checkPlace keeps the run inside checkpoint_root_dir.
func (c *Config) checkPlace(r report) {
	for _, p := range []struct{ key, value string }{{"project", c.Project}, {"group", c.Group}, {"name", c.Name}} {
		if p.value != "" && !filepath.IsLocal(p.value) {
			r.fail(p.key, fmt.Sprintf("%q would put the run outside checkpoint_root_dir", p.value), "use a plain name")
		}
		if wrong := wrongName(p.value); wrong != "" && !c.IsStage() {
			r.fail(p.key, wrong, "use a plain name")
		}
	}
	c.Explorer.checkPlace(r)
	if !isAddress(c.Trainer.ListenAddress) {
		r.fail("trainer.listen_address", fmt.Sprintf("%q is not an address: want host:port", c.Trainer.ListenAddress),
			"such as 0.0.0.0:7000; port 0 is any free one")
	}
	if strings.TrimSpace(c.Name) == "" {
		r.fail("name", "is empty", "it names the directory of the run")
	}
	if b := c.Buffer.TrainerInput.ExperienceBuffer; b != nil && wrongName(b.Name) != "" {
		r.fail(storeKey+".name", wrongName(b.Name), "it is part of file names")
	}
}
