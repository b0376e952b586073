// Everything that a program does with queues, by AWS's SDK for Java as it is, which also checks the
// digests of bodies and attributes.

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.core.SdkBytes;
import software.amazon.awssdk.services.sqs.SqsClient;
import software.amazon.awssdk.services.sqs.model.BatchResultErrorEntry;
import software.amazon.awssdk.services.sqs.model.Message;
import software.amazon.awssdk.services.sqs.model.MessageAttributeValue;
import software.amazon.awssdk.services.sqs.model.MessageSystemAttributeName;
import software.amazon.awssdk.services.sqs.model.QueueAttributeName;
import software.amazon.awssdk.services.sqs.model.QueueDoesNotExistException;
import software.amazon.awssdk.services.sqs.model.SendMessageBatchRequestEntry;
import software.amazon.awssdk.services.sqs.model.SqsException;

public class Round {
    static final String PREFIX = System.getenv("PREFIX");
    static SqsClient sqs = SqsClient.create();

    public static void main(String[] arguments) {
        String dead = create("dead", Map.of());
        String arn = sqs.getQueueAttributes(r -> r.queueUrl(dead).attributeNames(QueueAttributeName.QUEUE_ARN))
            .attributes().get(QueueAttributeName.QUEUE_ARN);
        String policy = "{\"deadLetterTargetArn\":\"%s\",\"maxReceiveCount\":2}".formatted(arn);
        String queue = create("orders", Map.of(QueueAttributeName.REDRIVE_POLICY, policy));
        String fifo = create("orders.fifo", Map.of(QueueAttributeName.FIFO_QUEUE, "true"));
        System.out.println("created");

        Map<String, MessageAttributeValue> attributes = new HashMap<>();
        attributes.put("color", value("String").stringValue("größe").build());
        attributes.put("count", value("Number.int").stringValue("42").build());
        attributes.put("bytes", value("Binary").binaryValue(SdkBytes.fromByteArray(new byte[] {0, -1, 1})).build());
        String sent = sqs.sendMessage(r -> r.queueUrl(queue).messageBody("with attributes").messageAttributes(attributes))
            .messageId();
        Message first = receive(queue, 5).get(0);
        same(first.messageId(), sent);
        same(first.messageAttributes(), attributes);
        same(receives(first), "1");
        remove(queue, first);
        System.out.println("attributes");

        var batch = sqs.sendMessageBatch(r -> r.queueUrl(queue).entries(entry("0", "a"), entry("1", "\0"), entry("2", "b")));
        same(batch.successful().stream().map(each -> each.id()).toList(), List.of("0", "2"));
        BatchResultErrorEntry failed = batch.failed().get(0);
        same(List.of(failed.id(), failed.code(), failed.senderFault()), List.of("1", "InvalidMessageContents", true));
        List<Message> found = new ArrayList<>();
        while (found.size() < 2) {
            found.addAll(receive(queue, 5));
        }
        same(bodies(found).stream().sorted().toList(), List.of("a", "b"));
        found.forEach(message -> remove(queue, message));
        System.out.println("batch");

        same(receive(queue, 1), List.of());
        var waiting = CompletableFuture.supplyAsync(() -> receive(queue, 20));
        sqs.getQueueUrl(r -> r.queueName(PREFIX + "-dead")); // by now the other request waits
        sqs.sendMessage(r -> r.queueUrl(queue).messageBody("late"));
        Message late = waiting.join().get(0);
        same(late.body(), "late");
        System.out.println("long poll");

        giveBack(queue, late);
        Message again = receive(queue, 5).get(0);
        same(receives(again), "2");
        System.out.println("visibility");

        giveBack(queue, again);
        Message letter = receive(dead, 20).get(0);
        same(letter.messageId(), late.messageId());
        giveBack(dead, letter);
        sqs.startMessageMoveTask(r -> r.sourceArn(arn));
        Message redriven = receive(queue, 20).get(0);
        same(redriven.body(), "late");
        remove(queue, redriven);
        System.out.println("redrive");

        for (String number : List.of("1", "2", "2", "3")) {
            sqs.sendMessage(r -> r.queueUrl(fifo).messageBody(number).messageGroupId("g").messageDeduplicationId(number));
        }
        List<Message> ordered = receive(fifo, 5);
        same(bodies(ordered), List.of("1", "2", "3"));
        ordered.forEach(message -> remove(fifo, message));
        System.out.println("fifo");

        var wrong = AwsBasicCredentials.create(System.getenv("AWS_ACCESS_KEY_ID"), "wrong");
        try (SqsClient stranger = SqsClient.builder().credentialsProvider(StaticCredentialsProvider.create(wrong)).build()) {
            stranger.sendMessage(r -> r.queueUrl(queue).messageBody("no"));
            throw new AssertionError("a wrong secret was taken");
        } catch (SqsException refused) {
            same(refused.awsErrorDetails().errorCode(), "SignatureDoesNotMatch");
            same(refused.statusCode(), 403);
        }
        needNoQueue(queue + "-none");
        System.out.println("refused");

        for (String each : List.of(queue, dead, fifo)) {
            sqs.deleteQueue(r -> r.queueUrl(each));
        }
        needNoQueue(queue);
        System.out.println("deleted");
    }

    static String create(String name, Map<QueueAttributeName, String> attributes) {
        return sqs.createQueue(r -> r.queueName(PREFIX + "-" + name).attributes(attributes)).queueUrl();
    }

    static List<Message> receive(String queue, int seconds) {
        return sqs.receiveMessage(r -> r.queueUrl(queue).waitTimeSeconds(seconds).maxNumberOfMessages(10)
            .messageAttributeNames("All").messageSystemAttributeNames(MessageSystemAttributeName.ALL)).messages();
    }

    static void remove(String queue, Message message) {
        sqs.deleteMessage(r -> r.queueUrl(queue).receiptHandle(message.receiptHandle()));
    }

    static void giveBack(String queue, Message message) {
        sqs.changeMessageVisibility(r -> r.queueUrl(queue).receiptHandle(message.receiptHandle()).visibilityTimeout(0));
    }

    static void needNoQueue(String queue) {
        try {
            receive(queue, 0);
            throw new AssertionError(queue + " is there");
        } catch (QueueDoesNotExistException expected) {
            same(expected.awsErrorDetails().errorCode(), "AWS.SimpleQueueService.NonExistentQueue");
        }
    }

    static MessageAttributeValue.Builder value(String type) {
        return MessageAttributeValue.builder().dataType(type);
    }

    static SendMessageBatchRequestEntry entry(String id, String body) {
        return SendMessageBatchRequestEntry.builder().id(id).messageBody(body).build();
    }

    static List<String> bodies(List<Message> messages) {
        return messages.stream().map(Message::body).toList();
    }

    static String receives(Message message) {
        return message.attributes().get(MessageSystemAttributeName.APPROXIMATE_RECEIVE_COUNT);
    }

    static void same(Object found, Object wanted) {
        if (!wanted.equals(found)) {
            throw new AssertionError(found + " is not " + wanted);
        }
    }
}
