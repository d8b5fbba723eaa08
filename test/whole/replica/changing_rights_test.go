package replica

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/test/support/harness"
)

// grant is a right that users are given and that is taken from them again.
type grant struct {
	name string
	// namespace is "" for a right in all of them.
	namespace string
	rule      rbacv1.PolicyRule
}

func grants() []grant {
	rule := func(resource string, names []string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, ResourceNames: names, Verbs: verbs}
	}
	return []grant{
		{"one-object", "default", rule("configmaps", []string{"object-0"}, "get")},
		{"one-by-list", "default", rule("configmaps", []string{"object-1"}, "list", "watch")},
		{"default", "default", rule("configmaps", nil, "get", "list")},
		{"other", "other", rule("configmaps", nil, "get", "list", "watch")},
		{"everywhere", "", rule("configmaps", nil, "list", "watch")},
		{"secrets", "default", rule("secrets", nil, "get", "list")},
	}
}

// rightPeriod is a time in which a user had a right. It began some time between beginning and
// begun, when the upstream was seen to know it, and ended between ending and ended. The last
// two are zero while it lasts.
type rightPeriod struct{ beginning, begun, ending, ended time.Time }

// changingRights gives rights to users and takes them.
type changingRights struct {
	client kubernetes.Interface
	grants []grant
	users  []string
	mu     sync.Mutex
	// periods are those of each user and grant.
	periods map[string][]rightPeriod
}

func rightKey(user, grant string) string { return user + " " + grant }

// flip gives a user a right, or takes it, and waits until the upstream knows.
func (c *changingRights) flip(ctx context.Context, user string, g *grant) error {
	c.mu.Lock()
	key := rightKey(user, g.name)
	periods := c.periods[key]
	has := len(periods) > 0 && periods[len(periods)-1].ending.IsZero()
	if has {
		periods[len(periods)-1].ending = time.Now()
	} else {
		c.periods[key] = append(periods, rightPeriod{beginning: time.Now()})
	}
	last := len(c.periods[key]) - 1
	c.mu.Unlock()
	if err := c.bind(ctx, user, g, !has); err != nil {
		return err
	}
	err := harness.Until(waitTimeout, func() error {
		answer, err := c.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, g.review(user), metav1.CreateOptions{})
		if err == nil && answer.Status.Allowed == has && strings.Contains(answer.Status.Reason, bindingName(user, g)) == has {
			err = notYet("right %s: %v", key, answer.Status)
		}
		return err
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	if has {
		c.periods[key][last].ended = time.Now()
	} else {
		c.periods[key][last].begun = time.Now()
	}
	return err
}

func bindingName(user string, g *grant) string { return user + "-" + g.name }

// bind makes or deletes the binding of a user to the role of a grant.
func (c *changingRights) bind(ctx context.Context, user string, g *grant, give bool) error {
	rights, meta := c.client.RbacV1(), metav1.ObjectMeta{Name: bindingName(user, g)}
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Name: user, Namespace: "default"}}
	role := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "changing-" + g.name}
	var err error
	switch {
	case give && g.namespace == "":
		_, err = rights.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: role}, metav1.CreateOptions{})
	case give:
		_, err = rights.RoleBindings(g.namespace).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: role}, metav1.CreateOptions{})
	case g.namespace == "":
		err = rights.ClusterRoleBindings().Delete(ctx, meta.Name, metav1.DeleteOptions{})
	default:
		err = rights.RoleBindings(g.namespace).Delete(ctx, meta.Name, metav1.DeleteOptions{})
	}
	return err
}

// review asks whether a user has what a grant gives.
func (g *grant) review(user string) *authorizationv1.SubjectAccessReview {
	ask := authorizationv1.ResourceAttributes{Namespace: g.namespace, Verb: g.rule.Verbs[0], Version: "v1", Resource: g.rule.Resources[0]}
	if len(g.rule.ResourceNames) > 0 {
		ask.Name = g.rule.ResourceNames[0]
	}
	return &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "system:serviceaccount:default:" + user, Groups: []string{"system:serviceaccounts", "system:authenticated"}, ResourceAttributes: &ask,
	}}
}

// guardedRead is a read, as a path and as what a right to it has to cover.
type guardedRead struct{ path, verb, resource, namespace, name string }

func randomRead(r *rand.Rand) guardedRead {
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	a := guardedRead{verb: pick("get", "list", "list", "watch"), resource: pick("configmaps", "configmaps", "configmaps", "secrets"), namespace: pick("default", "default", "other")}
	if a.verb != "get" && r.IntN(3) == 0 {
		a.namespace = ""
	}
	a.path = "/api/v1/"
	if a.namespace != "" {
		a.path += "namespaces/" + a.namespace + "/"
	}
	a.path += a.resource
	if a.verb == "get" {
		a.name = "object-" + strconv.Itoa(r.IntN(3))
		a.path += "/" + a.name
		return a
	}
	a.path += pick("?", "?labelSelector=kind%3Deven&", "?resourceVersion=0&")
	if r.IntN(3) == 0 {
		a.name = "object-" + strconv.Itoa(r.IntN(3))
		a.path += "fieldSelector=metadata.name%3D" + a.name + "&"
	}
	if a.verb == "watch" {
		a.path += "watch=1&timeoutSeconds=60"
	}
	return a
}

// coveredBy reports whether a grant gives the right to the read.
func (a *guardedRead) coveredBy(g *grant) bool {
	has := func(list []string, word string) bool {
		return strings.Contains(" "+strings.Join(list, " ")+" ", " "+word+" ")
	}
	return has(g.rule.Verbs, a.verb) && has(g.rule.Resources, a.resource) && (g.namespace == "" || g.namespace == a.namespace) &&
		(len(g.rule.ResourceNames) == 0 || a.name != "" && has(g.rule.ResourceNames, a.name))
}

// right says whether a user may have had the right to a read at some moment of a time, and
// whether it had it all the time.
func (c *changingRights) right(user string, a *guardedRead, from, to time.Time) (possible, certain bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.grants {
		if !a.coveredBy(&c.grants[i]) {
			continue
		}
		for _, p := range c.periods[rightKey(user, c.grants[i].name)] {
			possible = possible || p.beginning.Before(to) && (p.ended.IsZero() || p.ended.After(from))
			certain = certain || !p.begun.IsZero() && p.begun.Before(from) && (p.ending.IsZero() || p.ending.After(to))
		}
	}
	return possible, certain
}

// TestChangingRights gives rights to users and takes them, while all users ask for the same at one
// moment, so that they could be given one answer. Nobody gets what its own right does not cover, and
// who has the right gets it.
func TestChangingRights(t *testing.T) {
	t.Parallel()
	// Each user asks several times at one moment.
	const ttl, users, times, pause = time.Second, 8, 3, 100 * time.Millisecond
	rounds := 50
	if wantsRobustness() {
		rounds = 5000 / users
	}
	upstream := startUpstream(t)
	admin := clientset(t, unlimited(upstream.Config()))
	c := &changingRights{client: admin, grants: grants(), periods: map[string][]rightPeriod{}}
	must(admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, metav1.CreateOptions{}))(t)
	for _, namespace := range []string{"default", "other"} {
		for i := range 3 {
			meta := metav1.ObjectMeta{Name: "object-" + strconv.Itoa(i), Labels: map[string]string{"kind": []string{"even", "odd"}[i%2]}}
			must(admin.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: meta}, metav1.CreateOptions{}))(t)
			must(admin.CoreV1().Secrets(namespace).Create(t.Context(), &corev1.Secret{ObjectMeta: meta}, metav1.CreateOptions{}))(t)
		}
	}
	for _, g := range c.grants {
		must(admin.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "changing-" + g.name}, Rules: []rbacv1.PolicyRule{g.rule}}, metav1.CreateOptions{}))(t)
	}
	replica := harness.StartReplica(t, upstream, "--authorization-webhook-cache-authorized-ttl="+ttl.String(), "--authorization-webhook-cache-unauthorized-ttl="+ttl.String())
	var clients []*http.Client
	for i := range users {
		c.users = append(c.users, fmt.Sprintf("user-%d", i))
		clients = append(clients, must(rest.HTTPClientFor(withToken(replica, t, account(t, admin, c.users[i], nil))))(t))
	}

	seed := harness.Seed(t)
	random := rand.New(rand.NewPCG(seed, 2))
	for _, user := range c.users {
		for i := range c.grants {
			if random.IntN(2) == 0 {
				must(0, c.flip(t.Context(), user, &c.grants[i]))(t)
			}
		}
	}

	ctx, cancel := context.WithCancel(t.Context())
	var beside sync.WaitGroup
	defer beside.Wait()
	defer cancel()
	beside.Go(func() { writeElsewhere(ctx, t, admin, false) })
	beside.Go(func() {
		r := rand.New(rand.NewPCG(seed, 1))
		for ctx.Err() == nil {
			if err := c.flip(ctx, c.users[r.IntN(users)], &c.grants[r.IntN(len(c.grants))]); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
			<-time.After(pause)
		}
	})

	var given, refused, decisive atomic.Int64
	for range rounds {
		a := randomRead(random)
		var readers sync.WaitGroup
		for i := range users * times {
			i, client := i%users, clients[i%users]
			readers.Go(func() {
				began := time.Now()
				code, err := status(ctx, client, replica.URL+a.path)
				ended := time.Now()
				possible, certain := c.right(c.users[i], &a, began.Add(-ttl-delay), ended)
				switch {
				case err != nil:
					t.Errorf("%s by %s: %v", a.path, c.users[i], err)
				case code == http.StatusOK && !possible:
					t.Errorf("%s by %s, who has had no right for %v: status 200", a.path, c.users[i], ttl+delay)
				case code != http.StatusOK && certain:
					t.Errorf("%s by %s, who had the right all the time: status %d", a.path, c.users[i], code)
				case code == http.StatusOK:
					given.Add(1)
				default:
					refused.Add(1)
				}
				if possible == certain {
					decisive.Add(1)
				}
			})
		}
		readers.Wait()
	}
	total := int64(rounds * users * times)
	shared := counter(t, replica, "millrace_replica_shared_reads_total")
	t.Logf("%d reads: %d given, %d refused; for %d only one of these was right; %d shared an answer", total, given.Load(), refused.Load(), decisive.Load(), shared)
	if given.Load() < total/20 || refused.Load() < total/20 || decisive.Load() < total/4 || shared == 0 {
		t.Error("the test compares too little")
	}
}
