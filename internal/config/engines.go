package config

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/safetext"
	"github.com/trinity-go/trinity/internal/tags"
	"github.com/trinity-go/trinity/internal/wire/openai"
	"github.com/trinity-go/trinity/registry"
)

const (
	trainerTypeKey = "trainer.trainer_type"
	engineTypeKey  = "explorer.rollout_model.engine_type"
	modelPathKey   = "model.model_path"
	trainerArgsKey = "trainer.trainer_args"
	engineArgsKey  = "explorer.rollout_model.engine_args"
	launcherKey    = "cluster.launcher"
	baseURLsKey    = "explorer.rollout_model.base_urls"
	syncMethodKey  = "synchronizer.sync_method"
)

// wayOfWeights returns the plug-in that brings weights to a sampler in the same process: the one that
// synchronizer.sync_method names. A value of Trinity-RFT stands for the first plug-in that fits:
// one that shares memory if one engine trains and samples.
func wayOfWeights(r report, engines *Engines, model *Model, synchronizer *Synchronizer, w Work) string {
	catalog, ok := registry.Find("weights")
	name := synchronizer.SyncMethod
	lacks, _ := engines.lacks(name, w, synchronizer, model)
	if len(lacks) > 0 && r.source.opts.Engine != "" && r.source.Pos(syncMethodKey).File != commandLine {
		engines.replaced = append(engines.replaced, syncMethodKey) // the way of the engines that --engine replaces
	} else if !slices.Contains(upstreamSyncMethods, name) {
		return name
	}
	switch {
	case !ok || len(catalog.Auto) == 0:
		return ""
	case engines.Train == engines.Sample:
		return catalog.Auto[0]
	}
	return catalog.Auto[len(catalog.Auto)-1]
}

// automatic returns the plug-in of a kind that a value stands for, "" if this program has none.
func automatic(kind, value string) string {
	if value != "auto" {
		return value
	}
	if catalog, ok := registry.Find(kind); ok && len(catalog.Auto) > 0 {
		return catalog.Auto[0]
	}
	return ""
}

// settleEngines applies the engine of the command line, and replaces auto with the engine that it stands
// for.
func settleEngines(r report, cluster *Cluster, engines *Engines, explorer *Explorer, trainer *Trainer) {
	engine := r.source.opts.Engine
	trainers, samplers := registry.Trainers.Names(), registry.Samplers.Names()
	both := slices.DeleteFunc(trainers, func(name string) bool { return !slices.Contains(samplers, name) })
	switch {
	case engine == "" || engine == "auto":
	case slices.Contains(both, engine):
		replaceEngine(r, engines, "trainer", &trainer.TrainerType, trainer.TrainerArgs, trainerArgsKey)
		replaceEngine(r, engines, "sampler", &explorer.RolloutModel.EngineType, explorer.RolloutModel.EngineArgs, engineArgsKey)
		for i := range explorer.AuxiliaryModels {
			if m := &explorer.AuxiliaryModels[i]; !m.isExternal() {
				replaceEngine(r, engines, "sampler", &m.EngineType, m.EngineArgs, tags.Join(auxiliaryModelsKey, digits(i))+".engine_args")
			}
		}
	default:
		r.add(Error{File: commandLine, Key: "--engine", Message: fmt.Sprintf("the engine %q is not built into this version", engine),
			Hint: "known: auto, " + strings.Join(both, ", "), Unsupported: true})
	}
	engines.Train = automatic("trainer", trainer.TrainerType)
	engines.Sample = automatic("sampler", explorer.RolloutModel.EngineType)
	engines.Launch = launcherOf(r, cluster)
}

// replaceEngine puts the engine of the command line in the place of another one. The other engine's
// arguments go with it, but for those of the command line.
func replaceEngine(r report, engines *Engines, kind string, name *string, args map[string]any, argsKey string) {
	engine := r.source.opts.Engine
	if automatic(kind, *name) != engine {
		maps.DeleteFunc(args, func(arg string, _ any) bool {
			key := tags.Join(argsKey, arg)
			if r.source.Pos(key).File == commandLine {
				return false
			}
			engines.replaced = append(engines.replaced, key)
			return true
		})
	}
	*name = engine
}

// launcherOf returns the plug-in that starts programs. auto is the first one on one machine, and the
// last on several.
func launcherOf(r report, cluster *Cluster) string {
	catalog, ok := registry.Find("launcher")
	if cluster.Launcher == "auto" && cluster.NodeNum > 1 && ok && len(catalog.Auto) > 1 {
		return catalog.Auto[len(catalog.Auto)-1]
	}
	return automatic("launcher", cluster.Launcher)
}

// findEngines looks up the engines that the mode opens, with their arguments. An engine that the mode
// does not open may have any name.
func findEngines(p pluginCheck, engines *Engines, explorer *Explorer, trainer *Trainer, w Work) {
	if w.Trains {
		p.named("trainer", engines.Train, trainerTypeKey, trainer.TrainerArgs, trainerArgsKey)
	}
	if w.Samples {
		p.named("sampler", engines.Sample, engineTypeKey, explorer.RolloutModel.EngineArgs, engineArgsKey)
	}
}

// findLauncher looks up the launcher, with its arguments.
func findLauncher(p pluginCheck, cluster *Cluster, engines *Engines) {
	p.named("launcher", engines.Launch, launcherKey, cluster.LauncherArgs, "cluster.launcher_args")
}

// engineHint returns the hint that names an engine of this program.
func engineHint(kind string) string {
	return fmt.Sprintf("run with --engine %[1]s, which this program has, or write %[1]s here", automatic(kind, "auto"))
}

// checkEngines refuses a weights plug-in that the mode does not use, and addresses that are none.
func checkEngines(r report, engines *Engines, explorer *Explorer, model *Model, synchronizer *Synchronizer, w Work) {
	if name := synchronizer.SyncMethod; !w.Together && !slices.Contains(upstreamSyncMethods, name) {
		r.fail(syncMethodKey, fmt.Sprintf("%s brings weights to a sampler of the same process, and in mode %s there is none", name,
			w.mode), "leave it out")
	}
	lacks, hint := engines.lacks(engines.Weights, w, synchronizer, model)
	for _, what := range lacks {
		r.fail(syncMethodKey, what, hint)
	}
	checkAddresses(baseURLsKey, explorer.RolloutModel.BaseUrls, r.fail)
}

// lacks returns why the run cannot use a way of the weights, and what to do.
func (e *Engines) lacks(name string, w Work, synchronizer *Synchronizer, model *Model) (lacks []string, hint string) {
	catalog, ok := registry.Find("weights")
	if !ok || !w.Together || !catalog.Has(name) {
		return nil, ""
	}
	way, ok := catalog.Default(name).(demanding)
	if !ok {
		return nil, ""
	}
	return way.Lacks(e.Train, e.Sample, synchronizer.SyncStyle, len(model.LoraConfigs) > 0)
}

// demanding is a way of the weights that does not fit all runs.
type demanding interface {
	// Lacks returns why a run cannot use the way, which has these plug-ins and this sync_style and trains
	// an adapter or all weights, and what to do.
	Lacks(trainer, sampler, style string, adapter bool) (lacks []string, hint string)
}

// microTokens returns the tokens of a micro-batch that suit the engine that trains.
func (e *Engines) microTokens(maxModelLen int) int {
	if registry.Trainers.Has(e.Train) {
		if engine, ok := registry.Trainers.Default(e.Train).(microBatching); ok {
			return engine.MicroTokens()
		}
	}
	return max(2048, 2*maxModelLen) // fewer would leave matrix kernels idle
}

// divideRows reports whether the engine that trains reads how many ranks hold the parts of a row.
func (e *Engines) divideRows() bool {
	if !registry.Trainers.Has(e.Train) {
		return false
	}
	keys, ok := registry.Trainers.Default(e.Train).(SharedKeys)
	if !ok {
		return false
	}
	reason, reads := keys.Reads(&Settled{Engines: *e})[ulyssesKey]
	return reads && reason == ""
}

// microBatching is an engine that trains and knows which micro-batches suit it.
type microBatching interface {
	// MicroTokens returns the tokens of a micro-batch that lose the engine no time, in groups that share a prompt too.
	MicroTokens() int
}

// checkAddresses refuses addresses of servers that are none, and servers that are named twice.
func checkAddresses(key string, all []string, fail func(key, what, hint string)) {
	roots := map[string]int{}
	for i, address := range all {
		u, err := url.Parse(address)
		root, wrong := openai.Root(address)
		if wrong != nil || err != nil || u.User != nil {
			fail(tags.Join(key, digits(i)), fmt.Sprintf("%q is not the address of a server", safetext.Hidden(address)),
				"write http://HOST:PORT, and the key as api_key")
			continue
		}
		if first, twice := roots[root]; twice { // it would load each version twice, at the same time
			fail(tags.Join(key, digits(i)), fmt.Sprintf("%q is the server of base_urls.%d", address, first), "leave it out")
			continue
		}
		roots[root] = i
	}
}

// SharedKeys is implemented by a trainer or sampler plug-in. It tells which of the keys that all
// engines share the plug-in supports. The plug-in's own keys are its arguments.
type SharedKeys interface {
	// Reads maps a key to "" if the engine honours it in this run, and otherwise to the reason why it has
	// no meaning there. A key includes all keys below it, * matches any segment, and a longer
	// key wins over a shorter one. trinity check lists the keys without meaning that a file sets.
	Reads(s *Settled) map[string]string
	// Refuses returns the values of the configuration that the engine does not support and that it
	// must not ignore, because they would change the run.
	Refuses(s *Settled) []Refusal
}

// Refusal is a valid value that an engine does not support.
type Refusal struct {
	Key  string
	What string // what the value asks for
	Hint string // what to do; may be empty
}

// openedEngine is a plug-in that the mode opens.
type openedEngine struct{ kind, name string }

// opened lists the engines that the mode opens.
func (s *Settled) opened() (all []openedEngine) {
	if s.Trains {
		all = append(all, openedEngine{"trainer", s.Engines.Train})
	}
	if s.Samples {
		all = append(all, openedEngine{"sampler", s.Engines.Sample})
	}
	return all
}

// sharedKeys returns the plug-in as SharedKeys; false if it does not implement it.
func (e openedEngine) sharedKeys() (SharedKeys, bool) {
	catalog, ok := registry.Find(e.kind)
	if !ok {
		return nil, false
	}
	keys, ok := catalog.Default(e.name).(SharedKeys)
	return keys, ok
}

// reads returns what the engine declares about a key; says is false if it declares nothing.
func (e openedEngine) reads(s *Settled, key string) (reason string, says bool) {
	keys, ok := e.sharedKeys()
	if !ok {
		return "", false
	}
	longest := -1
	for pattern, why := range keys.Reads(s) {
		if below(key, pattern) && len(pattern) > longest {
			reason, says, longest = why, true, len(pattern)
		}
	}
	return reason, says
}

// unusedByEngines returns why no engine of the mode reads a shared key. It returns "" if one reads
// it or the key is not shared. A key is shared if any engine of this program declares something
// about it.
func (s *Settled) unusedByEngines(key string) string {
	opened, silent := s.opened(), ""
	for _, e := range opened {
		reason, says := e.reads(s, key)
		switch {
		case says && reason == "":
			return ""
		case says:
			silent = reason
		}
	}
	if silent != "" {
		return silent
	}
	for _, kind := range []string{"trainer", "sampler"} {
		catalog, ok := registry.Find(kind)
		if !ok {
			continue
		}
		for _, name := range catalog.Names() {
			reason, says := openedEngine{kind, name}.reads(s, key)
			at := slices.IndexFunc(opened, func(e openedEngine) bool { return e.kind == kind })
			switch {
			case !says:
			case at >= 0:
				return fmt.Sprintf("the %s %q does not declare that it reads it", kind, opened[at].name)
			case reason != "":
				return "mode " + s.Mode + " opens no " + kind
			}
		}
	}
	return ""
}

// behindServers reports whether the run samples behind servers, which base_urls names or the run starts.
func (s *Settled) behindServers() bool {
	reason, says := openedEngine{"sampler", s.Engines.Sample}.reads(s, baseURLsKey)
	return s.Samples && says && reason == ""
}

// ServersFollow reports whether the servers that sample get the versions of a trainer.
func (s *Settled) ServersFollow() bool {
	return s.behindServers() && (s.Together || s.Explores && s.Buffer.TrainerInput.ExperienceBuffer.StorageType != "file")
}

// startsServers reports whether the run starts the servers that sample.
func (s *Settled) startsServers() bool {
	return s.behindServers() && len(s.Explorer.RolloutModel.BaseUrls) == 0
}

// refusedByEngines calls refuse for each value that the engines of the mode do not support.
func (s *Settled) refusedByEngines(refuse func(key, what, hint string)) {
	told := map[string]bool{}
	for _, e := range s.opened() {
		keys, ok := e.sharedKeys()
		if !ok {
			continue
		}
		for _, r := range keys.Refuses(s) {
			if !told[r.Key] {
				told[r.Key] = true
				refuse(r.Key, r.What, r.Hint)
			}
		}
	}
}
