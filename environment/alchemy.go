package environment

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Environments.Register("cod_random_alchemy",
		"The policy combines two elements after the other until it has made a wanted one. Which pairs make what is unknown; elements have "+
			"made-up names, and tiers: one of tier t is made of one of tier t−1 and another one of a lower tier. With scope per_pack the tasks "+
			"of a pack have the same recipes and want different elements. Reward: 1 for the wanted element, else 0; a reply that names no pair "+
			"ends the task. Words of the messages: {target}, {have}, {knowledge}, {rounds} that are left, {happened}. Metrics: success, made.",
		func() trinity.EnvironmentOpener {
			return &alchemy{MaxRounds: 15, ShowTiers: true, Material: "unlimited", Scope: "per_task", MinMaterial: 1.5, MaxMaterial: 2,
				recipeArgs: defaultRecipes(),
				Ask: "You make elements of others: any two that you have, also twice the same, may make a new one, or nothing. You do not know the " +
					"recipes, which stay the same in later tasks. Make {target}. You have {rounds} rounds.{knowledge}\n" +
					"Think first, then write two elements between ``` and ```, such as ```abc + def```.\n\nYou have: {have}",
				Tell: "{happened}\nYou have: {have}\nWanted: {target}. Rounds left: {rounds}"}
		})
}

// alchemy is the game.
type alchemy struct {
	recipeArgs   `yaml:",inline"`
	MaxRounds    int     `yaml:"max_rounds" range:"[1,)" doc:"replies at most"`
	ShowRecipes  bool    `yaml:"show_recipes" doc:"the policy reads all recipes"`
	ShowElements bool    `yaml:"show_elements" doc:"the policy reads all elements"`
	ShowTiers    bool    `yaml:"show_tiers" doc:"the policy reads the tier of each element"`
	Material     string  `yaml:"material_mode" enum:"unlimited|limited" doc:"limited: elements are used up"`
	MinMaterial  float64 `yaml:"min_material_mult" doc:"limited: what there is of each element, as a multiple of what is needed, at least"`
	MaxMaterial  float64 `yaml:"max_material_mult" doc:"limited: the same at most"`
	Scope        string  `yaml:"scope" enum:"per_pack|per_task" doc:"who has the same recipes"`
	Ask          string  `yaml:"ask" required:"write the message to the policy" doc:"first message to the policy"`
	Tell         string  `yaml:"tell" required:"write the message to the policy" doc:"message after each reply"`
}

// Validate checks the arguments.
func (a *alchemy) Validate() error {
	if a.Material == "limited" && !(a.MinMaterial >= 1 && a.MinMaterial <= a.MaxMaterial && a.MaxMaterial <= 1000) {
		return fmt.Errorf("min_material_mult and max_material_mult: want 1 ≤ min ≤ max ≤ 1000, got %g and %g", a.MinMaterial, a.MaxMaterial)
	}
	return a.recipeArgs.validate()
}

// Requires implements [trinity.Requirer].
func (a *alchemy) Requires() trinity.Requirements {
	return trinity.Requirements{CheckTask: checkBy(placeOf)}
}

// OpenEnvironment implements [trinity.EnvironmentOpener].
func (a *alchemy) OpenEnvironment(_ context.Context, t *trinity.Task) (trinity.Environment, error) {
	task, err := placeOf(t)
	return &combining{args: a, task: task}, err
}

// combining is one episode.
type combining struct {
	inMemory
	args   *alchemy
	task   place
	book   *book
	target string
	have   map[string]int // amounts; 1 where material is unlimited
	rounds int            // that are left
	made   int            // elements
	heard  string
}

// Reset implements [trinity.Environment].
func (c *combining) Reset(_ context.Context, seed uint64) (trinity.Observation, error) {
	own, unknowns := c.task.seeds(seed)
	index, size := c.task.index, c.task.size
	if c.args.Scope == "per_task" {
		unknowns, index, size = own, 0, 1
	}
	random := newNumpyRandom(unknowns)
	c.book = c.args.recipeArgs.write(random)
	targets := c.book.targets(random, size)
	c.target = targets[index%len(targets)]
	c.have, c.rounds, c.made, c.heard = map[string]int{}, c.args.MaxRounds, 0, ""
	amount := 1
	if c.args.Material == "limited" {
		need := 1
		for _, n := range c.book.needs(c.target) {
			need = max(need, n)
		}
		amount = max(need, int(float64(need)*newNumpyRandom(own).uniform(c.args.MinMaterial, c.args.MaxMaterial)+0.5))
	}
	for _, e := range c.book.tiers[0] {
		c.have[e] = amount
	}
	return c.says(c.args.Ask, ""), nil
}

func (c *combining) says(text, happened string) trinity.Observation {
	c.heard += "\n" + happened
	var have []string
	for e, n := range c.have {
		if c.args.Material == "limited" {
			e = fmt.Sprintf("%s × %d", e, n)
		}
		have = append(have, e)
	}
	slices.Sort(have)
	return says(text, c.target+c.heard, "{target}", c.target, "{have}", strings.Join(have, ", "), "{knowledge}", c.knowledge(),
		"{rounds}", strconv.Itoa(c.rounds), "{happened}", happened)
}

// knowledge returns what the policy is told of the recipes.
func (c *combining) knowledge() string {
	text := ""
	if c.args.Material == "limited" {
		text += " Elements that you combine are used up, also if they make nothing."
	}
	if c.args.ShowTiers {
		text += "\nTiers, of which you have 0:"
		for tier, elements := range c.book.tiers {
			text += fmt.Sprintf("\n%d: %s", tier, strings.Join(elements, ", "))
		}
	} else if c.args.ShowElements {
		text += "\nAll elements: " + strings.Join(slices.Sorted(slices.Values(slices.Concat(c.book.tiers...))), ", ")
	}
	if c.args.ShowRecipes {
		text += "\nRecipes:"
		for _, r := range c.book.recipes {
			text += fmt.Sprintf("\n%s + %s = %s", r.of[0], r.of[1], r.makes)
		}
	}
	return text
}

var pairPattern = regexp.MustCompile(`^\s*(\w+)\s*\+\s*(\w+)\s*$`)

// Step implements [trinity.Environment].
func (c *combining) Step(_ context.Context, a trinity.Action) (out trinity.Outcome, err error) {
	c.rounds--
	reward, happened := 0.0, "The reply names no pair of elements. The task is over."
	if named := pairPattern.FindStringSubmatch(strings.ToLower(fenced(a.Text))); named != nil {
		happened = c.combine(named[1], named[2])
	} else {
		out.Done = true
	}
	switch {
	case c.have[c.target] > 0:
		reward, out.Done = 1, true
	case out.Done:
	case c.rounds == 0:
		happened, out.Done = happened+" No round is left.", true
	case !c.canCombine():
		happened, out.Done = happened+" Nothing is left to combine.", true
	}
	out.Observation, out.Reward = c.says(c.args.Tell, happened), &reward
	out.Metrics = map[string]float64{"success": reward, "made": float64(c.made)}
	return out, nil
}

// combine combines two elements and says what happened.
func (c *combining) combine(one, two string) string {
	need := map[string]int{one: 1}
	if c.args.Material == "limited" {
		need[two]++
	} else {
		need[two] = 1
	}
	for _, e := range []string{one, two} {
		if c.have[e] < need[e] {
			return fmt.Sprintf("You do not have enough of %s.", e)
		}
	}
	if c.args.Material == "limited" {
		for e, n := range need {
			if c.have[e] -= n; c.have[e] == 0 {
				delete(c.have, e)
			}
		}
	}
	makes := c.book.makes(one, two)
	switch {
	case makes == "":
		return fmt.Sprintf("%s + %s makes nothing.", one, two)
	case c.args.Material == "limited":
		c.have[makes]++
	default:
		c.have[makes] = 1
	}
	c.made++
	return fmt.Sprintf("%s + %s makes %s.", one, two, makes)
}

// canCombine reports whether two elements are left.
func (c *combining) canCombine() bool {
	if c.args.Material == "unlimited" {
		return true
	}
	n := 0
	for _, amount := range c.have {
		n += amount
	}
	return n > 1
}
