package papers

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/lab/bench/testbed"
	"github.com/millrace/millrace/internal/tool/display"
)

// printout is the JSON that a step has printed, split by server, in the order of its report.
type printout []printedServer

// printedServer has the JSON of one server.
type printedServer struct {
	name   string
	values object
}

// object is a JSON object.
type object = map[string]any

// member returns a member of an object. It returns the zero value if the member is missing or has
// another type.
func member[T any](o object, name string) T {
	value, _ := o[name].(T)
	return value
}

// objects returns the objects in a list of an object. It skips values of other types.
func objects(o object, list string) (all []object) {
	for _, one := range member[[]any](o, list) {
		if o, ok := one.(object); ok {
			all = append(all, o)
		}
	}
	return all
}

// pathCluster is the name of an existing server in the JSON of "bench provision".
const pathCluster = "cluster"

// decodePrintout splits the JSON of a step by server. A bench without a list of servers has
// results of several read paths, each of which counts as a server.
func decodePrintout(step string, text []byte) (printout, error) {
	var whole object
	if err := json.Unmarshal(text, &whole); err != nil {
		return nil, fmt.Errorf("decode report of step %s: %w", step, err)
	}
	var p printout
	for _, server := range objects(whole, "servers") {
		p = append(p, printedServer{member[string](server, "name"), server})
	}
	for _, result := range objects(whole, "results") {
		path := member[string](result, "path")
		if path == pathCluster {
			path = testbed.ReadPathExisting
		}
		k := slices.IndexFunc(p, func(s printedServer) bool { return s.name == path })
		if k < 0 {
			k = len(p)
			p = append(p, printedServer{path, object{"results": []any{}}})
		}
		values := p[k].values
		values["results"] = append(member[[]any](values, "results"), result)
		values["version"] = cmp.Or(member[string](result, "version"), member[string](result, "server"), member[string](values, "version"))
	}
	return p, nil
}

// lookup returns the value at a path, such as "results[workload=pods-json].millis.p50". Brackets
// choose the last element of a list that has these members and no error. A missing value is 0,
// because JSON omits zeros. lookup returns false if the path leads through a missing element.
func lookup(value any, path string) (any, bool) {
	for path != "" {
		var name, rest string
		name, path, _ = strings.Cut(path, ".")
		name, rest, isList := strings.Cut(name, "[")
		o, ok := value.(object)
		if !ok {
			return nil, false
		}
		if value = o[name]; !isList {
			continue
		}
		if value, ok = findLast(objects(o, name), strings.TrimSuffix(rest, "]")); !ok {
			return nil, false
		}
	}
	if value == nil {
		value = 0.0
	}
	return value, true
}

// findLast returns the last object without an error that has members, such as "servers=1,rate=0".
// A missing member counts as 0 and as false.
func findLast(all []object, members string) (object, bool) {
	for _, o := range slices.Backward(all) {
		has := o["error"] == nil
		for pair := range strings.SplitSeq(members, ",") {
			name, want, _ := strings.Cut(pair, "=")
			switch value := o[name]; {
			case name == "":
			case value == nil:
				has = has && (want == "0" || want == "false")
			default:
				has = has && fmt.Sprint(value) == want
			}
		}
		if has {
			return o, true
		}
	}
	return nil, false
}

// number returns the number at a path of a server's JSON, and false if there is none.
func (s *printedServer) number(path string) (float64, bool) {
	value, ok := lookup(s.values, path)
	n, isNumber := value.(float64)
	return n, ok && isNumber
}

// figure returns a server's figure for a row. It returns false if any of its parts was not measured.
func (s *printedServer) figure(r *rowPlan) (total float64, measured bool) {
	for _, path := range r.Paths {
		n, ok := s.number(path)
		if !ok {
			return 0, false
		}
		total += n
	}
	if r.Subtract != "" {
		n, ok := s.number(r.Subtract)
		if !ok {
			return 0, false
		}
		total = max(0, total-n)
	}
	return total * cmp.Or(r.Multiply, 1) / cmp.Or(r.Divide, 1), true
}

// section returns the section with the figures that the steps, by name, have printed.
func (p *sectionPlan) section(steps map[string]printout) Section {
	s := Section{Title: p.Title, Note: p.Note}
	for i := range p.Rows {
		r := &p.Rows[i]
		row := Row{Name: r.Name, Unit: r.Unit, Published: r.Published, PublishedValue: r.Value, Values: map[string]float64{}}
		for _, server := range steps[cmp.Or(r.Step, p.Step)] {
			if v, ok := server.figure(r); ok {
				row.Values[server.name] = v
			}
		}
		s.add(row)
	}
	for _, plan := range p.Charts {
		if c := plan.chart(steps[p.Step]); len(c.Lines) > 0 {
			s.Charts = append(s.Charts, c)
		}
	}
	for _, server := range steps[p.Step] {
		if bytes, ok := server.number(p.Answer); ok {
			s.Note = "An answer here has " + unitBytes.format(bytes) + " as clients receive it."
		}
	}
	return s
}

// chart returns a chart with a line for each server that has more than one sample.
func (p *chartPlan) chart(d printout) Chart {
	c := Chart{Title: p.Title, Unit: p.Unit}
	for _, server := range d {
		list, _ := lookup(server.values, p.Path)
		samples := objects(object{"": list}, "")
		if len(samples) < 2 {
			continue
		}
		line := Series{Server: server.name}
		for _, sample := range samples {
			line.Points = append(line.Points, [2]float64{member[float64](sample, "s"), member[float64](sample, "rss")})
		}
		c.Lines = append(c.Lines, line)
	}
	return c
}

// versions returns the versions of the servers, by name.
func (d printout) versions() map[string]string {
	all := map[string]string{}
	for _, s := range d {
		if version := member[string](s.values, "version"); version != "" {
			all[s.name] = version
		}
	}
	return all
}

// remarks returns a line for each result with requests that the server refused or ended, and
// that clients repeated. Lines about failures follow.
func (d printout) remarks() (lines []string) {
	var failures []string
	for _, s := range d {
		for _, list := range []string{"results", "informers"} {
			for _, o := range objects(s.values, list) {
				title := resultTitle(o)
				add := func(count, text string) {
					if n := int(member[float64](o, count)); n > 0 {
						lines = append(lines, fmt.Sprintf("%s, %s: "+text, serverName(s.name), title, display.Plural(n, "time")))
					}
				}
				add("refused", "the first request was refused %s (429) and sent again. Its time starts with the last attempt.")
				add("resumed", "the server ended a watch %s, which then continued after its last event.")
				add("restarts", "informers had to start again %s.")
				if err := member[string](o, "error"); err != "" {
					first, _, _ := strings.Cut(err, "\n") // the other lines are the end of a process's log
					failures = append(failures, fmt.Sprintf("Failed: %s, %s: %s", serverName(s.name), title, display.Clean(first)))
				}
			}
		}
	}
	return append(lines, failures...)
}

// resultTitle returns the name of a result's workload, or a description in its place.
func resultTitle(result object) string {
	if workload := member[string](result, "workload"); workload != "" {
		return workload
	}
	if n := int(member[float64](result, "servers")); n > 0 {
		return display.Plural(n, "server")
	}
	return "pods from creation to running"
}
