package fill

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/millrace/millrace/internal/tool/clusterprofile"
)

// profileSource gives objects so that a profile of the server is like the one that it is made
// of: as many of each resource, of such sizes, in as many namespaces, with such labels.
// What others have on the server counts.
type profileSource struct {
	g     *Generator
	plans map[Kind]*resourcePlan
	// custom are the plans of custom resources. customEnds are the numbers of their objects,
	// added up.
	custom     []*resourcePlan
	customEnds []int
	skipped    []string
}

func round(v float64) int { return int(math.Round(v)) }

func pow(t, power float64) float64 { return math.Pow(t, power) }

// ResourceName returns the name of a kind in a profile.
func ResourceName(kind Kind) string {
	group := strings.TrimPrefix(strings.TrimPrefix(kind.api(), "/apis/"), "/api/")
	if group, _, found := strings.Cut(group, "/"); found {
		return string(kind) + "." + group
	}
	return string(kind)
}

// newProfileSource plans what to write. It counts what others have on the server.
func newProfileSource(ctx context.Context, seed uint64, p *clusterprofile.Profile, api *apiClient) (*profileSource, error) {
	s := &profileSource{plans: map[Kind]*resourcePlan{}}
	for i := range p.Resources {
		r := &p.Resources[i]
		plan := planOf(r, seed)
		if plan == nil {
			s.skipped = append(s.skipped, r.Resource)
			continue
		}
		foreign, err := api.countOthers(ctx, plan)
		owned := true
		if err == nil && plan.kind == KindCustomObject {
			owned, err = api.ownsDefinition(ctx, r.Resource)
		}
		switch {
		case err != nil:
			return nil, err
		case foreign < 0 && plan.kind != KindCustomObject, !owned, foreign > 0 && plan.kind == KindCustomObject:
			s.skipped = append(s.skipped, r.Resource)
			continue
		}
		plan.n = max(0, plan.n-max(0, foreign))
		if plan.kind == KindCustomObject {
			s.custom = append(s.custom, plan)
		} else {
			s.plans[plan.kind] = plan
		}
	}
	if err := s.finish(seed); err != nil {
		return nil, err
	}
	for _, plan := range s.all() {
		plan.api = api
		plan.deal()
	}
	return s, nil
}

// all returns the plans in the order in which they are written.
func (s *profileSource) all() []*resourcePlan {
	all := slices.Clone(s.custom)
	for _, kind := range ProfileKinds() {
		if plan := s.plans[kind]; plan != nil {
			all = append(all, plan)
		}
	}
	return all
}

// finish adds what objects need: namespaces with their service accounts, and definitions. It
// makes the generator.
func (s *profileSource) finish(seed uint64) error {
	namespaces := 0
	for _, plan := range s.all() {
		if plan.namespaced && plan.n > 0 {
			namespaces = max(namespaces, min(plan.namespaces, plan.total))
		}
	}
	s.need(KindNamespace, seed, namespaces) // their names are those of the first ones
	s.need(KindServiceAccount, seed, s.plans[KindNamespace].n)
	if len(s.custom) > 0 {
		s.need(KindCRD, seed, len(s.custom))
	}
	end := 0
	for _, plan := range s.custom {
		end += plan.n
		s.customEnds = append(s.customEnds, end)
	}
	total := func(kind Kind) int {
		if plan := s.plans[kind]; plan != nil {
			return max(plan.total, plan.n)
		}
		return 0
	}
	// Names follow from the shape. So it must not depend on what others have, which changes.
	shape := Shape{
		Seed: seed, Namespaces: total(KindNamespace), Nodes: total(KindNode), Pods: total(KindPod), Ownerless: true,
		PodSize: smallestPodSize, SecretSize: smallestDataSize, ConfigMapSize: smallestDataSize,
	}
	if pods := s.plans[KindPod]; pods != nil {
		shape.PodSize = max(smallestPodSize, min(maxObjectSize, round(baseShare*pods.sizes.values[0])))
	}
	var err error
	s.g, err = NewGenerator(shape)
	for _, plan := range s.all() {
		plan.g, plan.custom, plan.madeNamespaces = s.g, s.custom, max(1, s.count(KindNamespace))
	}
	return err
}

// The objects that grow to the sizes of a profile begin with these sizes.
const (
	smallestPodSize  = 2000
	smallestDataSize = 1000
	// baseShare is the part of the smallest pod of a profile with which pods begin.
	baseShare = 0.7
)

// need has at least n objects of a kind written.
func (s *profileSource) need(kind Kind, seed uint64, n int) {
	if s.plans[kind] == nil {
		s.plans[kind] = planOf(&clusterprofile.Resource{Resource: ResourceName(kind)}, seed)
	}
	s.plans[kind].n = max(s.plans[kind].n, n)
}

func (s *profileSource) count(kind Kind) int {
	switch plan := s.plans[kind]; {
	case kind == KindCustomObject && len(s.customEnds) > 0:
		return s.customEnds[len(s.customEnds)-1]
	case plan != nil:
		return plan.n
	}
	return 0
}

func (s *profileSource) object(ctx context.Context, kind Kind, i int) (Object, error) {
	plan := s.plans[kind]
	if kind == KindCustomObject {
		at := sort.SearchInts(s.customEnds, i+1)
		if plan = s.custom[at]; at > 0 {
			i -= s.customEnds[at-1]
		}
	}
	return plan.object(ctx, i)
}

// notes tell what the profile has and the run did not write.
func (s *profileSource) notes() []string {
	if len(s.skipped) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("not written, because fill has no objects of them, others have, or the server does not serve them: %s", strings.Join(s.skipped, ", "))}
}
