// Everything that a program does with queues, by AWS's SDK for Go as it is.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"sort"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
)

var (
	ctx    = context.Background()
	prefix = os.Getenv("PREFIX")
	client = connect(os.Getenv("AWS_SECRET_ACCESS_KEY"))
)

func main() {
	dead := create("dead", nil)
	asked := []types.QueueAttributeName{types.QueueAttributeNameQueueArn}
	known := must(client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: &dead, AttributeNames: asked}))
	arn := known.Attributes["QueueArn"]
	policy := fmt.Sprintf(`{"deadLetterTargetArn":"%s","maxReceiveCount":2}`, arn)
	queue := create("orders", map[string]string{"RedrivePolicy": policy})
	fifo := create("orders.fifo", map[string]string{"FifoQueue": "true"})
	fmt.Println("created")

	attributes := map[string]types.MessageAttributeValue{
		"color": {DataType: aws.String("String"), StringValue: aws.String("größe")},
		"count": {DataType: aws.String("Number.int"), StringValue: aws.String("42")},
		"bytes": {DataType: aws.String("Binary"), BinaryValue: []byte{0, 255, 1}},
	}
	sent := must(send(&sqs.SendMessageInput{QueueUrl: &queue, MessageBody: aws.String("with attributes"), MessageAttributes: attributes}))
	first := receive(queue, 5)[0]
	same(*first.MessageId, *sent.MessageId)
	same(*first.MD5OfMessageAttributes, *sent.MD5OfMessageAttributes)
	same(first.MessageAttributes, attributes)
	same(first.Attributes["ApproximateReceiveCount"], "1")
	remove(queue, first)
	fmt.Println("attributes")

	entries := []types.SendMessageBatchRequestEntry{}
	for at, body := range []string{"a", "\x00", "b"} {
		entries = append(entries, types.SendMessageBatchRequestEntry{Id: aws.String(fmt.Sprint(at)), MessageBody: &body})
	}
	batch := must(client.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{QueueUrl: &queue, Entries: entries}))
	same([]string{*batch.Successful[0].Id, *batch.Successful[1].Id}, []string{"0", "2"})
	failed := batch.Failed[0]
	same([]any{*failed.Id, *failed.Code, failed.SenderFault}, []any{"1", "InvalidMessageContents", true})
	found := []types.Message{}
	for len(found) < 2 {
		found = append(found, receive(queue, 5)...)
	}
	unordered := bodies(found)
	sort.Strings(unordered)
	same(unordered, []string{"a", "b"})
	for _, message := range found {
		remove(queue, message)
	}
	fmt.Println("batch")

	same(len(receive(queue, 1)), 0)
	waiting := make(chan []types.Message)
	go func() { waiting <- receive(queue, 20) }()
	must(client.ListQueues(ctx, &sqs.ListQueuesInput{})) // by now the other request waits
	must(send(&sqs.SendMessageInput{QueueUrl: &queue, MessageBody: aws.String("late")}))
	late := (<-waiting)[0]
	same(*late.Body, "late")
	fmt.Println("long poll")

	giveBack(queue, late)
	again := receive(queue, 5)[0]
	same(again.Attributes["ApproximateReceiveCount"], "2")
	fmt.Println("visibility")

	giveBack(queue, again)
	letter := receive(dead, 20)[0]
	same(*letter.MessageId, *late.MessageId)
	giveBack(dead, letter)
	must(client.StartMessageMoveTask(ctx, &sqs.StartMessageMoveTaskInput{SourceArn: &arn}))
	redriven := receive(queue, 20)[0]
	same(*redriven.Body, "late")
	remove(queue, redriven)
	fmt.Println("redrive")

	for _, number := range []string{"1", "2", "2", "3"} {
		must(send(&sqs.SendMessageInput{QueueUrl: &fifo, MessageBody: &number, MessageGroupId: aws.String("g"), MessageDeduplicationId: &number}))
	}
	ordered := receive(fifo, 5)
	same(bodies(ordered), []string{"1", "2", "3"})
	for _, message := range ordered {
		remove(fifo, message)
	}
	fmt.Println("fifo")

	_, err := connect("wrong").SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &queue, MessageBody: aws.String("no")})
	var refused smithy.APIError
	same(errors.As(err, &refused), true)
	same(refused.ErrorCode(), "SignatureDoesNotMatch")
	needNoQueue(queue + "-none")
	fmt.Println("refused")

	for _, url := range []string{queue, dead, fifo} {
		must(client.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: &url}))
	}
	needNoQueue(queue)
	fmt.Println("deleted")
}

func connect(secret string) *sqs.Client {
	return sqs.New(sqs.Options{
		BaseEndpoint: aws.String(os.Getenv("AWS_ENDPOINT_URL_SQS")),
		Region:       os.Getenv("AWS_REGION"),
		Credentials:  credentials.NewStaticCredentialsProvider(os.Getenv("AWS_ACCESS_KEY_ID"), secret, ""),
	})
}

func create(name string, attributes map[string]string) string {
	made := must(client.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String(prefix + "-" + name), Attributes: attributes}))
	return *made.QueueUrl
}

func send(message *sqs.SendMessageInput) (*sqs.SendMessageOutput, error) {
	return client.SendMessage(ctx, message)
}

func receive(queue string, seconds int32) []types.Message {
	return must(client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl:                    &queue,
		WaitTimeSeconds:             seconds,
		MaxNumberOfMessages:         10,
		MessageAttributeNames:       []string{"All"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{"All"},
	})).Messages
}

func remove(queue string, message types.Message) {
	must(client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &queue, ReceiptHandle: message.ReceiptHandle}))
}

func giveBack(queue string, message types.Message) {
	must(client.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{QueueUrl: &queue, ReceiptHandle: message.ReceiptHandle}))
}

func needNoQueue(queue string) {
	_, err := client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &queue})
	var missing *types.QueueDoesNotExist
	same(errors.As(err, &missing), true)
}

func bodies(messages []types.Message) []string {
	found := []string{}
	for _, message := range messages {
		found = append(found, *message.Body)
	}
	return found
}

func same(found, wanted any) {
	if !reflect.DeepEqual(found, wanted) {
		panic(fmt.Sprintf("%v is not %v", found, wanted))
	}
}

func must[T any](found T, err error) T {
	if err != nil {
		panic(err)
	}
	return found
}
