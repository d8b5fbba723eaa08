package fill

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/millrace/millrace/internal/tool/clusterprofile"
)

// profileSource generates the objects that bring a server to a profile: to its number of
// objects, sizes, namespaces and labels of each resource. Objects that others have on the
// server already count towards the numbers. A custom resource of which others have objects is left
// out.
type profileSource struct {
	g     *Generator
	plans map[Kind]*resourcePlan // of built-in resources
	// custom has the plans of custom resources. customEnds[k] is the number of objects of
	// custom[0] to custom[k].
	custom     []*resourcePlan
	customEnds []int
	skipped    []string // resources that are not written
}

func round(v float64) int { return int(math.Round(v)) }

// ResourceName returns the name that a profile has for a kind, such as deployments.apps.
func ResourceName(kind Kind) string {
	group := strings.TrimPrefix(strings.TrimPrefix(kind.api(), "/apis/"), "/api/")
	if group, _, found := strings.Cut(group, "/"); found {
		return string(kind) + "." + group
	}
	return string(kind)
}

// newProfileSource plans what to write. It lists each resource on the server, to count the
// objects of others.
func newProfileSource(ctx context.Context, seed uint64, p *clusterprofile.Profile, api *apiClient) (*profileSource, error) {
	s := &profileSource{plans: map[Kind]*resourcePlan{}}
	for i := range p.Resources {
		r := &p.Resources[i]
		plan := newResourcePlan(r, seed)
		if plan == nil {
			s.skipped = append(s.skipped, r.Resource)
			continue
		}
		foreign, err := api.countForeignObjects(ctx, plan)
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
	if err := s.makeGenerator(seed); err != nil {
		return nil, err
	}
	for _, plan := range s.all() {
		plan.api = api
		plan.distribute()
	}
	return s, nil
}

// all returns the plans in the order in which their objects are written.
func (s *profileSource) all() []*resourcePlan {
	all := slices.Clone(s.custom)
	for _, kind := range ProfileKinds() {
		if plan := s.plans[kind]; plan != nil {
			all = append(all, plan)
		}
	}
	return all
}

// makeGenerator plans what other objects need: namespaces with their service accounts, and
// definitions. Then it makes the generator, and gives it to all plans.
func (s *profileSource) makeGenerator(seed uint64) error {
	namespaces := 0
	for _, plan := range s.all() {
		if plan.namespaced && plan.n > 0 {
			namespaces = max(namespaces, min(plan.namespaces, plan.total))
		}
	}
	s.ensureCount(KindNamespace, seed, namespaces)
	s.ensureCount(KindServiceAccount, seed, s.plans[KindNamespace].n)
	if len(s.custom) > 0 {
		s.ensureCount(KindCRD, seed, len(s.custom))
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
	// Names follow from the shape. So the shape must not depend on the objects of others, which
	// may change from run to run.
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

// Objects are generated in these sizes, in bytes, and then padded to the sizes of the profile.
const (
	smallestPodSize  = 2000
	smallestDataSize = 1000
	// baseShare is the share of the profile's smallest pod size that pods have before padding.
	baseShare = 0.7
)

// ensureCount raises the number of objects of a kind to n, if it is lower.
func (s *profileSource) ensureCount(kind Kind, seed uint64, n int) {
	if s.plans[kind] == nil {
		s.plans[kind] = newResourcePlan(&clusterprofile.Resource{Resource: ResourceName(kind)}, seed)
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
		k := sort.SearchInts(s.customEnds, i+1)
		if plan = s.custom[k]; k > 0 {
			i -= s.customEnds[k-1]
		}
	}
	return plan.object(ctx, i)
}

// notes names the resources of the profile that the run did not write.
func (s *profileSource) notes() []string {
	if len(s.skipped) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("not written, because fill cannot make their objects, other programs have some, or the "+
		"server does not serve them: %s", strings.Join(s.skipped, ", "))}
}

// countForeignObjects returns the number of objects that this seed did not make, or -1 if the
// server does not serve the resource.
func (c *apiClient) countForeignObjects(ctx context.Context, p *resourcePlan) (n int, err error) {
	for _, err := range c.listMetadata(ctx, p.collection(""), LabelSeed+"!="+c.seed, listPage) {
		if errors.Is(err, errUnserved) {
			return -1, nil
		}
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}
