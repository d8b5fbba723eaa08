package papers

import (
	"embed"
	"fmt"
	"math"
	"slices"
	"strings"
	"text/template"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/millrace/millrace/internal/tool/display"
)

// Paper has the experiments of one publication, at one scale.
type Paper struct {
	// Name is the name of its command, a letter.
	Name  string `json:"name"`
	Title string `json:"title"`
	// Original describes what the paper measured. Differs lists what is different here.
	Original string   `json:"original"`
	Differs  []string `json:"differs"`
	// Scale is the default of --scale. With it a run takes Minutes for each server.
	Scale   float64 `json:"scale"`
	Minutes string  `json:"minutes"`

	Steps    []step        `json:"steps"`
	Sections []sectionPlan `json:"sections"`
}

// step is a bench to run.
type step struct {
	Name string `json:"name"` // a value of --only
	// Args has the arguments of "millrace-lab bench", with spaces between them.
	Args string `json:"args"`
}

func (s step) words() []string { return strings.Fields(s.Args) }

// stepProvision is the step that can run the components of a cluster which has none.
const stepProvision = "provision"

// sectionPlan says which figures of one step a section shows.
type sectionPlan struct {
	Title string `json:"title"`
	Note  string `json:"note"`
	Step  string `json:"step"`
	// Answer, if it is not empty, is the path of the size of an answer, which the note reports.
	Answer string      `json:"answer"`
	Rows   []rowPlan   `json:"rows"`
	Charts []chartPlan `json:"charts"`
}

// rowPlan describes a figure: (sum of the values at Paths - value at Subtract) * Multiply / Divide.
type rowPlan struct {
	Name      string  `json:"name"`
	Unit      Unit    `json:"unit"`
	Published string  `json:"published"`
	Value     float64 `json:"value"` // Row.PublishedValue
	// Step takes the place of the section's step, unless it is empty.
	Step     string   `json:"step"`
	Paths    []string `json:"of"`
	Subtract string   `json:"less"`  // may be empty
	Multiply float64  `json:"times"` // 0 means 1
	Divide   float64  `json:"over"`  // 0 means 1
}

// chartPlan describes a chart of the memory samples at a path.
type chartPlan struct {
	Title string `json:"title"`
	Unit  Unit   `json:"unit"`
	Path  string `json:"of"`
}

// size says how large the run of a paper is.
type size struct {
	scale float64
	// duration replaces the length of each load, and of each pause before memory is read. 0: as
	// the paper says.
	duration time.Duration
}

// builtInGroupVersions is the number of group versions that Kubernetes 1.37 has without definitions.
const builtInGroupVersions = 23

// templateFunctions returns the functions of the templates in data.
func (s size) templateFunctions() template.FuncMap {
	return template.FuncMap{
		"list":          func(all ...any) []any { return all },
		"inc":           func(i int) int { return i + 1 },
		"min":           func(a, b int) int { return min(a, b) },
		"plural":        display.Plural,
		"provisionName": func() string { return provisionName },
		// count returns a count of the paper, scaled, but not below least.
		"count": func(n int, least ...int) int { return scaleCount(n, s.scale, slices.Max(append(least, 1))) },
		// groups returns the number of groups to fill in, so that a server has the given number
		// of group versions.
		"groups": func(versions int) int {
			return max(2, scaleCount(versions, min(1, 4*s.scale), 1)-builtInGroupVersions)
		},
		// original returns a published figure. It returns 0, which keeps the figure out of plots, if
		// this run does not have the original's counts.
		"original": func(published any) any {
			if s.scale != 1 {
				return 0
			}
			return published
		},
		// during returns a duration of the paper, or the one that replaces it.
		"during": func(d string) (time.Duration, error) {
			if s.duration > 0 {
				return s.duration, nil
			}
			return time.ParseDuration(d)
		},
	}
}

// scaleCount returns a count times the scale, but not below least.
func scaleCount(count int, scale float64, least int) int {
	return max(least, int(math.Round(float64(count)*scale)))
}

// data has a file for each paper: a template of YAML, because counts and titles depend on the
// scale.
//
//go:embed data/*.yaml
var data embed.FS

// paperNames returns the names of all papers in their order.
func paperNames() []string { return []string{"a", "b", "c", "d", "e"} }

// loadPaper returns a paper at a size.
func loadPaper(name string, s size) (*Paper, error) {
	file, err := data.ReadFile("data/" + name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("there is no paper %q", name)
	}
	parsed, err := template.New(name).Option("missingkey=error").Funcs(s.templateFunctions()).Parse(string(file))
	if err != nil {
		return nil, fmt.Errorf("read paper: %w", err)
	}
	var text strings.Builder
	if err := parsed.Execute(&text, struct{ Scale float64 }{s.scale}); err != nil {
		return nil, fmt.Errorf("read paper: %w", err)
	}
	p := &Paper{}
	if err := yaml.UnmarshalStrict([]byte(text.String()), p); err != nil {
		return nil, fmt.Errorf("read paper %s: %w", name, err)
	}
	return p, nil
}

// allPapers returns all papers at the original's scale.
func allPapers() (papers []*Paper) {
	for _, name := range paperNames() {
		p, err := loadPaper(name, size{scale: 1})
		if err != nil {
			panic(err) // the files are part of the program
		}
		papers = append(papers, p)
	}
	return papers
}
