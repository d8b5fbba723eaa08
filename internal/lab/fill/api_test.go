package fill

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// fakeAPI implements the part of an API server that fill uses. It speaks only
// protobuf. Like Kubernetes, it taints new nodes and keeps deleted namespaces until
// they are finalized.
type fakeAPI struct {
	t     *testing.T
	codec *protobuf.Serializer
	// failures holds the status codes that answer the next writing requests.
	failures chan int
	nextUID  atomic.Int64

	mu struct {
		sync.Mutex
		objects map[string]Object // by URL path
	}
}

func newFakeAPI(t *testing.T) (*fakeAPI, *rest.Config) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, discoveryv1.AddToScheme, coordinationv1.AddToScheme, metav1.AddMetaToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	f := &fakeAPI{t: t, codec: protobuf.NewSerializer(scheme, scheme), failures: make(chan int, 10)}
	f.mu.objects = make(map[string]Object)
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return f, &rest.Config{Host: server.URL}
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if r.Method != http.MethodGet {
		select {
		case code := <-f.failures:
			f.status(w, code, "hiccup")
			return
		default:
		}
		if r.Header.Get("Content-Type") != runtime.ContentTypeProtobuf {
			f.status(w, http.StatusUnsupportedMediaType, "not protobuf")
			return
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch r.Method {
	case http.MethodPost:
		f.createLocked(w, r, body)
	case http.MethodPut:
		f.putLocked(w, r, body)
	case http.MethodDelete:
		f.deleteLocked(w, r, body)
	case http.MethodGet:
		if obj, ok := f.mu.objects[r.URL.Path]; ok {
			f.write(w, http.StatusOK, obj)
			return
		}
		f.listLocked(w, r)
	}
}

func (f *fakeAPI) status(w http.ResponseWriter, code int, message string) {
	reason := map[int]metav1.StatusReason{
		404: metav1.StatusReasonNotFound, 409: metav1.StatusReasonAlreadyExists, 412: metav1.StatusReasonConflict,
	}[code]
	if code == http.StatusPreconditionFailed {
		code = http.StatusConflict
	}
	f.write(w, code, &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	})
}

func (f *fakeAPI) write(w http.ResponseWriter, code int, obj runtime.Object) {
	w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
	w.WriteHeader(code)
	if err := f.codec.Encode(obj, w); err != nil {
		f.t.Errorf("encode answer: %v", err)
	}
}

func (f *fakeAPI) decode(body []byte) Object {
	obj, gvk, err := f.codec.Decode(body, nil, nil)
	if err != nil {
		f.t.Errorf("decode request: %v", err)
		return &corev1.Pod{}
	}
	obj.GetObjectKind().SetGroupVersionKind(*gvk)
	return obj.(Object)
}

func (f *fakeAPI) createLocked(w http.ResponseWriter, r *http.Request, body []byte) {
	obj := f.decode(body)
	path := r.URL.Path + "/" + obj.GetName()
	if _, ok := f.mu.objects[path]; ok {
		f.status(w, http.StatusConflict, "exists")
		return
	}
	created := obj.GetCreationTimestamp()
	if obj.GetUID() != "" || len(obj.GetManagedFields()) > 0 || !created.IsZero() {
		f.t.Errorf("%s was created with fields that only the server sets", path)
	}
	obj.SetUID(types.UID("uid-" + formatCount(f.nextUID.Add(1))))
	switch obj := obj.(type) {
	case *corev1.Node:
		obj.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}}
	case *corev1.Pod:
		if f.mu.objects["/api/v1/namespaces/"+obj.Namespace+"/serviceaccounts/default"] == nil {
			f.status(w, http.StatusForbidden, "no service account")
			return
		}
		if obj.Spec.Priority != nil {
			f.t.Errorf("created %s with a priority", path)
		}
		obj.Status = corev1.PodStatus{Phase: corev1.PodPending}
	}
	f.mu.objects[path] = obj
	f.write(w, http.StatusCreated, obj)
}

func (f *fakeAPI) putLocked(w http.ResponseWriter, r *http.Request, body []byte) {
	path, status := strings.CutSuffix(r.URL.Path, "/status")
	path, finalize := strings.CutSuffix(path, "/finalize")
	old, ok := f.mu.objects[path]
	if !ok {
		f.status(w, http.StatusNotFound, "not found")
		return
	}
	next := f.decode(body)
	next.SetUID(old.GetUID())
	switch next := next.(type) {
	case *corev1.Node:
		if status {
			next.Spec = old.(*corev1.Node).Spec
		}
	case *corev1.Namespace:
		if finalize && len(next.Spec.Finalizers) == 0 && old.GetDeletionTimestamp() != nil {
			delete(f.mu.objects, path)
			f.write(w, http.StatusOK, next)
			return
		}
	}
	f.mu.objects[path] = next
	f.write(w, http.StatusOK, next)
}

func (f *fakeAPI) deleteLocked(w http.ResponseWriter, r *http.Request, body []byte) {
	obj, ok := f.mu.objects[r.URL.Path]
	if !ok {
		f.status(w, http.StatusNotFound, "not found")
		return
	}
	var opts metav1.DeleteOptions
	if _, _, err := f.codec.Decode(body, nil, &opts); err != nil {
		f.t.Errorf("decode delete options: %v", err)
	}
	if opts.Preconditions != nil && *opts.Preconditions.UID != obj.GetUID() {
		f.status(w, http.StatusPreconditionFailed, "another object")
		return
	}
	switch obj := obj.(type) {
	case *corev1.Pod:
		if obj.Spec.NodeName != "" && (opts.GracePeriodSeconds == nil || *opts.GracePeriodSeconds != 0) {
			f.t.Errorf("pod %s is deleted with grace", obj.Name)
		}
	case *corev1.Namespace:
		now := metav1.Now()
		obj.DeletionTimestamp = &now
		f.write(w, http.StatusOK, obj)
		return
	}
	delete(f.mu.objects, r.URL.Path)
	f.write(w, http.StatusOK, obj)
}

// listLocked answers with one page of a collection's metadata, sorted by path. A
// path without a namespace lists all namespaces.
func (f *fakeAPI) listLocked(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(r.URL.Path, "/")
	resource := parts[len(parts)-1]
	inNamespace := slices.Contains(parts, "namespaces") && resource != "namespaces"
	selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		f.t.Error(err)
	}
	var paths []string
	for path, obj := range f.mu.objects {
		dir := path[:strings.LastIndexByte(path, '/')]
		wanted := dir == r.URL.Path || !inNamespace && strings.Contains(dir, "/namespaces/") && strings.HasSuffix(dir, "/"+resource)
		if wanted && selector.Matches(labels.Set(obj.GetLabels())) && path > r.URL.Query().Get("continue") {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	const page = 7
	list := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}}
	if len(paths) > page {
		paths = paths[:page]
		list.Continue = paths[page-1]
	}
	for _, path := range paths {
		obj := f.mu.objects[path]
		list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Name: obj.GetName(), Namespace: obj.GetNamespace(), UID: obj.GetUID(), Labels: obj.GetLabels(),
		}})
	}
	f.write(w, http.StatusOK, list)
}

func (f *fakeAPI) paths() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var paths []string
	for path := range f.mu.objects {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return paths
}

func (f *fakeAPI) setObject(path string, obj Object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.objects[path] = obj
}

func TestFillAndDeleteThroughAPI(t *testing.T) {
	fake, conf := newFakeAPI(t)
	for _, code := range []int{http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusPreconditionFailed} {
		fake.failures <- code
	}
	shape := Shape{Seed: 9, Nodes: 2, Namespaces: 3, Pods: 100, Secrets: 8, ConfigMaps: 4, Workloads: true, Leases: true, Events: 7}
	total := int64(2 + 2*3 + 100 + 8 + 4 + 4*5 + 2 + 7)
	summary := runFill(t, Config{Shape: shape, REST: conf})
	if got := summary.Total(); got.Done != total || int64(len(fake.paths())) != total {
		t.Fatalf("filled %+v, the server has %d objects, want %d", summary, len(fake.paths()), total)
	}
	for path, obj := range fake.mu.objects {
		switch obj := obj.(type) {
		case *corev1.Node:
			if len(obj.Spec.Taints) > 0 || len(obj.Status.Conditions) != 4 {
				t.Errorf("node %s is not ready", path)
			}
		case *corev1.Pod:
			if obj.Status.Phase != corev1.PodRunning || obj.Spec.NodeName == "" {
				t.Errorf("pod %s does not run", path)
			}
		case *corev1.Service:
			if obj.Spec.ClusterIP != "" {
				t.Errorf("service %s asks for an address", path)
			}
		}
	}

	// The second run completes a pod that an interrupted run left without a status.
	// It skips all other objects.
	pod := mustGenerator(t, shape).Pod(5)
	path := "/api/v1/namespaces/" + pod.Namespace + "/pods/" + pod.Name
	half := pod.DeepCopy()
	half.Status = corev1.PodStatus{}
	fake.setObject(path, half)
	summary = runFill(t, Config{Shape: shape, REST: conf})
	if got := summary.Total(); got.Done != 0 || got.Skipped != total {
		t.Errorf("the second fill did %+v", summary)
	}
	if got := fake.mu.objects[path].(*corev1.Pod); got.Status.Phase != corev1.PodRunning {
		t.Error("a pod without status was not completed")
	}
	deleteThroughAPI(t, fake, conf, shape)
}

func deleteThroughAPI(t *testing.T, fake *fakeAPI, conf *rest.Config, shape Shape) {
	other := mustGenerator(t, Shape{Seed: 90}).Namespace(0)
	foreign := []string{"/apis/rbac.authorization.k8s.io/v1/namespaces/fill-9-00001/roles/mine", "/api/v1/namespaces/other"}
	fake.setObject(foreign[0], &corev1.ConfigMap{ // only its metadata is asked for
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: "mine", Namespace: "fill-9-00001"},
	})
	other.Name = "other"
	fake.setObject(foreign[1], other)
	fake.setObject("/api/v1/namespaces/fill-9-00002/configmaps/kube-root-ca.crt", &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: "kube-root-ca.crt", Namespace: "fill-9-00002"},
	})
	summary := runFill(t, Config{Shape: Shape{Seed: 9}, REST: conf, Delete: true})
	want := slices.Sorted(slices.Values(append(foreign, "/api/v1/namespaces/fill-9-00001")))
	if got := fake.paths(); !slices.Equal(got, want) {
		t.Errorf("left are %q, want %q", got, want)
	}
	if summary.Kinds[KindPod].Done != int64(shape.Pods) || len(summary.Notes) != 1 {
		t.Errorf("deleted %+v", summary)
	}
}

func TestUnreachableAPI(t *testing.T) {
	_, conf := newFakeAPI(t)
	conf.Host = "127.0.0.1:1"
	filler, err := New(Config{Shape: Shape{Pods: 1}, REST: conf})
	if err != nil {
		t.Fatal(err)
	}
	_, err = filler.Run(context.Background())
	if err == nil || !strings.Contains(err.Error(), "check that it runs") || bytes.ContainsRune([]byte(err.Error()), '\n') {
		t.Errorf("an unreachable server gave %v", err)
	}
}
